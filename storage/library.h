// A library that is loaded when it is first needed: what most runs never use (archives, networks) takes no memory from
// them, nor from workers. libcurl and what it brings take 9 MiB of a process.
#pragma once
#include <dlfcn.h>

#include <string>

#include "storage/error.h"

namespace cuboid {

class Library {
 public:
  // Throws Error{unsupported} naming the Debian package where the library is not there. Never unloaded.
  Library(const char* file, const char* package) : handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr)
      throw Error(ErrorKind::unsupported, std::string(file) + " cannot be loaded: install the package " + package);
  }
  // As the header declares it: take<decltype(curl_easy_init)>("curl_easy_init"), which links to nothing.
  template <class Function>
  Function* take(const char* name) const {
    void* found = ::dlsym(handle_, name);
    if (found == nullptr)
      throw Error(ErrorKind::unsupported, std::string("the library lacks '") + name + "': it is too old");
    return reinterpret_cast<Function*>(found);
  }

 private:
  void* handle_;
};

}  // namespace cuboid
