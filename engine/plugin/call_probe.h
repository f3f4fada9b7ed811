// What a validator sees of a call that its user does not: each request for memory, which it may refuse, and each promise
// of the manifest that was broken. A call whose monitor is a probe tells of broken promises and enforces none.
#pragma once
#include <cstdint>
#include <string>

#include "engine/expr/kernel.h"

namespace cuboid {

class CallProbe : public CallMonitor {
 public:
  enum class Promise : std::uint8_t { call_bytes, state_bytes, outside_bytes, rows, slab, release, surroundings };
  // A request for memory is about to be served, bytes as the manifest counts them; false refuses it.
  virtual bool admits(std::uint64_t bytes) = 0;
  // What the call holds now, as the manifest counts.
  virtual void holds(std::uint64_t call_bytes, std::uint64_t state_bytes, std::uint64_t outside_bytes) = 0;
  // What a function of the plugin returned, as it is.
  virtual void returned(std::int32_t status) = 0;
  virtual void broke(Promise promise, const std::string& what) = 0;
};

}  // namespace cuboid
