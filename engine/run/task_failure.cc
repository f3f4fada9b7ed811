#include "engine/run/task_failure.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace cuboid {
namespace {

const std::string* find(const Error::Context& context, std::string_view key) {
  for (const auto& [name, value] : context)
    if (name == key) return &value;
  return nullptr;
}

template <class Number>
std::optional<Number> number(const Error::Context& context, std::string_view key) {
  const std::string* text = find(context, key);
  Number value{};
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

}  // namespace

std::string to_string(Evidence evidence) {
  switch (evidence) {
    case Evidence::none:
      return "none";
    case Evidence::own_account:
      return "own-account";
    case Evidence::own_limit:
      return "own-limit";
    case Evidence::own_bound:
      return "own-bound";
    case Evidence::host:
      return "host";
    case Evidence::unknown:
      return "unknown";
  }
  return "unknown";
}

Evidence evidence_from(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '_', '-');
  for (Evidence evidence :
       {Evidence::none, Evidence::own_account, Evidence::own_limit, Evidence::own_bound, Evidence::host})
    if (to_string(evidence) == name) return evidence;
  return Evidence::unknown;
}

bool overwrote_memory(const Error& error) { return find(error.context(), "memory") != nullptr; }

void describe_failure(TaskEvent& event, Error error) {
  const std::string* evidence = find(error.context(), "evidence");
  event.what = evidence ? TaskEvent::What::exceeded : TaskEvent::What::failed;
  if (evidence) {
    event.evidence = evidence_from(*evidence);
    event.needed = number<std::uint64_t>(error.context(), "needed_uncertain").value_or(0);
    event.bound_needed = number<std::int64_t>(error.context(), "bound_needed");
    event.bound_output = number<std::int64_t>(error.context(), "bound_output");
    if (event.bound_needed) event.evidence = Evidence::own_bound;
  }
  event.error = std::move(error);
}

}  // namespace cuboid
