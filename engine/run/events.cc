#include "engine/run/events.h"

#include "engine/run/run.h"

namespace cuboid {

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
