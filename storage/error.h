// The one exception type of Cuboid. Thrown where a fault is found, enriched with context on its way up, caught at three
// borders only: the task, the command line, the C ABI. A message says what, where, and what to do.
#pragma once
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cuboid {

enum class ErrorKind { not_found, corrupt, io, invalid, unsupported, over_budget, plugin, cancelled };

constexpr std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::io:
      return "io";
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::over_budget:
      return "over_budget";
    case ErrorKind::plugin:
      return "plugin";
    case ErrorKind::cancelled:
      return "cancelled";
  }
  return "unknown";
}

class Error : public std::exception {
 public:
  // Innermost first: {"chunk", "3.1"}, {"array", "out/smooth.zarr"}, {"stage", "smooth"}.
  using Context = std::vector<std::pair<std::string, std::string>>;

  Error(ErrorKind kind, std::string message, Context context = {})
      : kind_(kind), message_(std::move(message)), context_(std::move(context)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const Context& context() const { return context_; }
  const char* what() const noexcept override { return message_.c_str(); }

  // Adds where it happened, from the inside out. Typical use: `catch (Error& e) { e.add("chunk", key); throw; }`.
  Error& add(std::string key, std::string value) {
    context_.emplace_back(std::move(key), std::move(value));
    return *this;
  }

 private:
  ErrorKind kind_;
  std::string message_;
  Context context_;
};

}  // namespace cuboid
