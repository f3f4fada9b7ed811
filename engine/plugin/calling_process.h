// A plugin may fork. What the copy does is the plugin's own affair, until it comes back from the plugin's code into
// ours: two hosts would then write one block, and speak on one socket.
#pragma once
#include <sys/types.h>

namespace cuboid {

// Made before a plugin's code is called.
class CallingProcess {
 public:
  CallingProcess();
  // Ends this process, after a line on standard error, where it is a copy of the one that made the object.
  void end_copy() const noexcept;

 private:
  pid_t id_;
};

}  // namespace cuboid
