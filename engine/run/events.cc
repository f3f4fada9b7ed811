#include "engine/run/events.h"

#include "engine/run/run.h"

namespace cuboid {

const char* to_string(Choice::What what) {
  switch (what) {
    case Choice::What::grow:
      return "grow";
    case Choice::What::alone:
      return "alone";
    case Choice::What::split:
      return "split";
    case Choice::What::park:
      return "park";
    case Choice::What::stop:
      return "stop";
  }
  return "?";
}

std::string to_string(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return "done";
    case RunStatus::refused:
      return "refused";
    case RunStatus::exceeded:
      return "exceeded";
    case RunStatus::failed:
      return "failed";
    case RunStatus::interrupted:
      return "interrupted";
  }
  return "failed";
}

}  // namespace cuboid
