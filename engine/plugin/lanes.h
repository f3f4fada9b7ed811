// Threads of this process for the bodies of `spread`, beside the call's own: made when they are first needed, and kept.
// A spread of bodies costs what waking them costs (two lanes: 5 us), not what making them does (45 us).
#pragma once
#include <cstdint>
#include <functional>

namespace cuboid {

// Runs work(0) here and work(1) to work(lanes - 1) on threads that wait, under the caller's floating-point environment;
// returns when all have ended. Where no further thread can be had there are fewer. `work` may not throw.
void run_on_lanes(std::uint32_t lanes, const std::function<void(std::uint32_t lane)>& work);

}  // namespace cuboid
