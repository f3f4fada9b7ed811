#include "engine/run/events.h"

#include "engine/run/run.h"

namespace cuboid {

std::string to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::none:
      return "none";
    case Evidence::own_account:
      return "own-account";
    case Evidence::own_limit:
      return "own-limit";
    case Evidence::own_bound:
      return "own-bound";
    case Evidence::host:
      return "host";
    case Evidence::unknown:
      return "unknown";
  }
  return "unknown";
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
