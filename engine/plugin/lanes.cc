#include "engine/plugin/lanes.h"

#include <algorithm>
#include <cfenv>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include "engine/plugin/calling_process.h"

namespace cuboid {
namespace {

struct Spread {
  const std::function<void(std::uint32_t)>& work;
  std::latch running;
  std::fenv_t floating_point;
};

struct Lane {
  std::binary_semaphore called{0};
  Spread* spread = nullptr;
  std::uint32_t number = 0;
};

// Never destroyed: a thread may outlive the statics of its process.
class LanePool {
 public:
  // At most `count`, idle until they are called.
  std::vector<Lane*> take(std::size_t count) {
    std::vector<Lane*> lanes;
    {
      const std::lock_guard lock(mutex_);
      const std::size_t found = std::min(count, idle_.size());
      lanes.assign(idle_.end() - static_cast<std::ptrdiff_t>(found), idle_.end());
      idle_.resize(idle_.size() - found);
    }
    try {
      while (lanes.size() < count) {
        auto lane = std::make_unique<Lane>();
        lanes.reserve(count);
        std::thread([this, own = lane.get()] { serve(*own); }).detach();
        lanes.push_back(lane.release());
      }
    } catch (const std::exception&) {
      // without a further thread, or memory for one, there are fewer lanes
    }
    return lanes;
  }

 private:
  [[noreturn]] void serve(Lane& lane) {
    for (;;) {
      lane.called.acquire();
      Spread& spread = *lane.spread;
      std::fesetenv(&spread.floating_point);
      const CallingProcess here;
      spread.work(lane.number);
      here.end_copy();
      {
        const std::lock_guard lock(mutex_);
        idle_.push_back(&lane);
      }
      spread.running.count_down();
    }
  }

  std::mutex mutex_;
  std::vector<Lane*> idle_;
};

LanePool& lane_pool() {
  static auto& lanes = *new LanePool;
  return lanes;
}

}  // namespace

void run_on_lanes(std::uint32_t lanes, const std::function<void(std::uint32_t lane)>& work) {
  const std::vector<Lane*> others = lanes > 1 ? lane_pool().take(lanes - 1) : std::vector<Lane*>{};
  Spread spread{work, std::latch(static_cast<std::ptrdiff_t>(others.size())), {}};
  std::fegetenv(&spread.floating_point);
  for (std::size_t k = 0; k < others.size(); ++k) {
    others[k]->spread = &spread;
    others[k]->number = static_cast<std::uint32_t>(k) + 1;
    others[k]->called.release();
  }
  const CallingProcess here;
  work(0);
  here.end_copy();
  spread.running.wait();
}

}  // namespace cuboid
