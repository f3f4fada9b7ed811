// What belongs to the whole process or thread and a plugin may not change in passing: the floating-point environment, the
// locale, the working directory. Another one left behind would change what runs after it, here and in other plugins.
#pragma once
#include <cfenv>
#include <string>

namespace cuboid {

// Remembers them, and puts back what changed meanwhile. 2 microseconds.
class KeptSurroundings {
 public:
  KeptSurroundings();
  ~KeptSurroundings();
  KeptSurroundings(const KeptSurroundings&) = delete;
  KeptSurroundings& operator=(const KeptSurroundings&) = delete;

  // "left another locale"; "" where all is as it was.
  std::string changes() const;

 private:
  std::fenv_t floating_point_;
  unsigned modes_;
  std::string locale_;
  int folder_;
};

}  // namespace cuboid
