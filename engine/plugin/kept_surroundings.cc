#include "engine/plugin/kept_surroundings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace cuboid {
namespace {

// The modes of the floating-point unit, without the flags that arithmetic raises.
unsigned floating_point_modes() {
#ifdef __SSE2__
  return _mm_getcsr() & ~0x3fu;
#else
  return static_cast<unsigned>(std::fegetround());
#endif
}

bool same_folder(int folder) {
  struct stat then {
  }, now{};
  return ::fstat(folder, &then) == 0 && ::stat(".", &now) == 0 && then.st_dev == now.st_dev &&
         then.st_ino == now.st_ino;
}

std::string locale() {
  const char* name = std::setlocale(LC_ALL, nullptr);
  return name ? name : "C";
}

}  // namespace

KeptSurroundings::KeptSurroundings()
    : modes_(floating_point_modes()), locale_(locale()), folder_(::open(".", O_PATH | O_CLOEXEC)) {
  std::fegetenv(&floating_point_);
}

KeptSurroundings::~KeptSurroundings() {
  std::fesetenv(&floating_point_);
  if (locale() != locale_) std::setlocale(LC_ALL, locale_.c_str());
  if (folder_ < 0) return;
  if (!same_folder(folder_)) {
    [[maybe_unused]] const int ignored = ::fchdir(folder_);
  }
  ::close(folder_);
}

std::string KeptSurroundings::changes() const {
  if (floating_point_modes() != modes_) return "left another rounding mode, or another treatment of tiny numbers";
  if (locale() != locale_) return "left another locale";
  if (folder_ >= 0 && !same_folder(folder_)) return "left another working directory";
  return "";
}

}  // namespace cuboid
