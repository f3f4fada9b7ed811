#include <cctype>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/cli/command.h"
#include "engine/report/table.h"
#include "storage/printable.h"
#include "storage/zarr_json.h"

namespace cuboid {

int exit_code(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::not_found:
    case ErrorKind::invalid:
    case ErrorKind::unsupported:
    case ErrorKind::plugin:
      return kExitUsage;
    case ErrorKind::over_budget:
      return kExitRefused;
    case ErrorKind::corrupt:
    case ErrorKind::io:
      return kExitStorage;
    case ErrorKind::cancelled:
      return kExitInterrupted;
  }
  return kExitInternal;
}

nlohmann::json error_json(const Error& error) {
  auto context = nlohmann::json::object();
  for (const auto& [key, value] : error.context()) context[key] = value;
  return {{"kind", to_string(error.kind())}, {"message", error.message()}, {"context", std::move(context)}};
}

void print_json(const nlohmann::json& json) {
  std::cout << dump_json(json) << "\n";
  std::cout.flush();
  if (!std::cout) throw Error(ErrorKind::io, "standard output cannot be written");
}

namespace {

// Whether a text has a word, path or number that is not part of a longer one.
bool has_word(const std::string& text, const std::string& word) {
  const auto goes_on = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (!(at > 0 && goes_on(at - 1)) && !goes_on(at + word.size())) return true;
  return false;
}

}  // namespace

void print_error(const Error& error, bool json) {
  if (json) {
    try {
      print_json({{"error", error_json(error)}});
    } catch (const Error&) {  // nobody reads standard output any more: the exit code still tells
    }
    return;
  }
  // Where it happened; other context is for programs.
  std::string where;
  for (const auto& [key, value] : error.context()) {
    const bool is_place =
        key == "array" || key == "chunk" || key == "file" || key == "stage" || key == "block" || key == "step";
    const bool known = value.empty() || has_word(error.message(), value) || has_word(where, key + " " + value);
    if (is_place && !known) where += (where.empty() ? " (" : ", ") + key + " " + value;
  }
  if (!where.empty()) where += ")";
  std::string lines;  // a message may have several; each is made fit for a terminal
  std::string message = error.message() + where;
  for (std::size_t start = 0; start <= message.size();) {
    const std::size_t end = std::min(message.find('\n', start), message.size());
    lines += printable(message.substr(start, end - start)) + "\n";
    start = end + 1;
  }
  std::cerr << paint(style_for(2), Ink::red, "cuboid:") << " " << lines;
}

}  // namespace cuboid
