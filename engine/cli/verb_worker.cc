#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/cli/command.h"
#include "engine/run/run.h"

namespace cuboid {

int worker_command(const std::vector<std::string>& arguments) {
  const std::string program = worker_program("");
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  throw Error(ErrorKind::not_found,
              program + ": " + std::strerror(errno) + "; set CUBOID_WORKER to the worker program");
}

}  // namespace cuboid
