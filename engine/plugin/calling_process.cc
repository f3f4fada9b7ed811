#include "engine/plugin/calling_process.h"

#include <unistd.h>

#include <string_view>

namespace cuboid {

CallingProcess::CallingProcess() : id_(::getpid()) {}

void CallingProcess::end_copy() const noexcept {
  if (::getpid() == id_) return;
  constexpr std::string_view kWhy =
      "cuboid: a process that a plugin forked came back from the plugin's code and was ended: a child must call "
      "_exit or exec\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kWhy.data(), kWhy.size());
  ::_exit(1);  // nothing that this process registered: destructors and buffers are the original's
}

}  // namespace cuboid
