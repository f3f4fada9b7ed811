#include "engine/run/escalation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cuboid {
namespace {

constexpr std::uint64_t kLeastDeclared = 1u << 20;
constexpr double kMargin = 1.1;
constexpr std::int64_t kSiblingsToRaise = 5;
constexpr std::int64_t kSiblingsToLower = 20;
constexpr int kHostRetries = 3;
// Two peaks are the same where they differ by less than what a page-wise measurement blurs.
constexpr std::uint64_t kSamePeakBytes = 64u << 10;

std::uint64_t counted(std::uint64_t declared_u) { return std::max(declared_u, kLeastDeclared); }

// Rounded up; everything beyond 2^63 is as good as unlimited.
std::uint64_t scaled(double factor, std::uint64_t bytes) {
  const double product = std::ceil(factor * static_cast<double>(bytes));
  return product < 0x1p63 ? static_cast<std::uint64_t>(product) : std::uint64_t{1} << 63;
}

double ratio(std::uint64_t peak_u, std::uint64_t declared_u) {
  return static_cast<double>(peak_u) / static_cast<double>(counted(declared_u));
}

bool own_evidence(const FailedAttempt& attempt) {
  return attempt.what == TaskEvent::What::exceeded &&
         (attempt.evidence == Evidence::own_account || attempt.evidence == Evidence::own_limit ||
          attempt.evidence == Evidence::own_bound);
}

bool blames_host(const FailedAttempt& attempt) { return attempt.evidence == Evidence::host; }

bool only_kept(ExceedAction action) { return action == ExceedAction::park || action == ExceedAction::fail; }

// It had less than was declared, as siblings had taken less: that was this program's guess, and no policy's matter.
// Where nothing is declared, the policy `grow` climbs from there as from anywhere.
bool below_declared(const StageLimits& limits, std::uint64_t allowed_u) {
  return allowed_u < limits.projection.uncertain &&
         (!limits.projection.unknown || limits.rules.action != ExceedAction::grow);
}

// More memory made no difference: the attempt before took as much with less allowed, and this one was not refused
// anything that it says it needs.
bool same_peak_twice(std::span<const FailedAttempt> history) {
  const FailedAttempt& last = history.back();
  if (last.peak_u == 0 || last.needed_u > last.allowed_u) return false;
  for (std::size_t k = history.size() - 1; k-- > 0;) {
    const FailedAttempt& before = history[k];
    if (!own_evidence(before)) continue;
    const std::uint64_t apart = std::max(before.peak_u, last.peak_u) - std::min(before.peak_u, last.peak_u);
    return before.peak_u > 0 && before.allowed_u < last.allowed_u && apart <= kSamePeakBytes;
  }
  return false;
}

std::uint64_t next_allowance(const StageLimits& limits, const FailedAttempt& last, const SiblingStats& siblings) {
  const std::uint64_t declared = counted(limits.projection.uncertain);
  const std::uint64_t base = std::max({last.allowed_u, last.peak_u, kLeastDeclared});
  return std::max({scaled(limits.rules.factor, base), last.needed_u, scaled(kMargin * siblings.worst_seen, declared)});
}

// Rungs 2 to 5.
Next climb(const StageLimits& limits, std::span<const FailedAttempt> history, const SiblingStats& siblings,
           bool can_split) {
  const FailedAttempt& last = history.back();
  const auto attempts = static_cast<int>(std::count_if(history.begin(), history.end(), [&](const FailedAttempt& a) {
    return !blames_host(a) && !below_declared(limits, a.allowed_u);
  }));
  if (attempts >= limits.rules.max_attempts) return {Next::What::park, {}, 0, "all attempts are used up"};

  const std::uint64_t next = next_allowance(limits, last, siblings);
  const std::uint64_t beside_others = std::min(limits.rules.cap, limits.budget / 4);
  if (attempts + 1 < limits.rules.max_attempts && limits.projection.with_uncertain(next) <= beside_others)
    return {Next::What::retry, {}, next, "more memory"};
  if (can_split) return {Next::What::split, {}, last.allowed_u, "cut into more pieces"};
  const std::uint64_t largest = largest_allowance(limits);
  if (largest > last.allowed_u && last.needed_u <= largest)
    return {Next::What::retry_alone, {}, largest, "alone with the whole cap"};
  return {Next::What::park, {}, 0, "it needs more than one task may have"};
}

}  // namespace

ExceedRules resolve_rules(const ExceedPolicy& run, const ExceedPolicy& step, bool run_wins, std::uint64_t room) {
  const ExceedPolicy& first = run_wins ? run : step;
  const ExceedPolicy& second = run_wins ? step : run;
  ExceedRules rules;
  rules.action = first.action.value_or(second.action.value_or(ExceedAction::grow));
  rules.factor = first.factor.value_or(second.factor.value_or(2));
  const auto cap = first.max_task_memory ? first.max_task_memory : second.max_task_memory;
  rules.cap = std::min(cap.value_or(room), room);
  rules.max_attempts = std::max(1, first.max_attempts.value_or(second.max_attempts.value_or(4)));
  return rules;
}

void SiblingStats::add_finished(std::uint64_t peak_u, std::uint64_t declared_u) {
  ++finished;
  worst_finished = std::max(worst_finished, ratio(peak_u, declared_u));
  worst_seen = std::max(worst_seen, worst_finished);
  above += peak_u > declared_u;
}

void SiblingStats::add_failed(std::uint64_t peak_u, std::uint64_t declared_u) {
  worst_seen = std::max(worst_seen, ratio(peak_u, declared_u));
}

std::uint64_t largest_allowance(const StageLimits& limits) {
  const std::uint64_t cap = limits.rules.cap, around = limits.projection.around_call;
  return cap > around ? cap - around : 0;
}

bool runs_one_at_a_time(const StageLimits& limits, const SiblingStats& siblings) {
  return limits.projection.unknown && siblings.finished < kSiblingsToRaise;
}

std::uint64_t first_allowance(const StageLimits& limits, const SiblingStats& siblings) {
  const std::uint64_t declared = limits.projection.uncertain;
  const std::uint64_t largest = largest_allowance(limits);
  if (runs_one_at_a_time(limits, siblings)) return std::max(largest, declared);
  if (siblings.finished < kSiblingsToRaise) return declared;
  const std::uint64_t learned = scaled(kMargin * siblings.worst_finished, counted(declared));
  if (limits.projection.unknown) return std::min(std::max(learned, kLeastDeclared), std::max(largest, declared));
  if (learned <= declared) return siblings.finished >= kSiblingsToLower ? learned : declared;
  if (2 * siblings.above <= siblings.finished) return declared;
  return std::min(learned, std::max(largest, declared));
}

Next decide(const StageLimits& limits, std::span<const FailedAttempt> history, const SiblingStats& siblings,
            bool can_split) {
  // Pieces have attempts of their own.
  const std::int64_t splits = history.back().splits;
  while (history.front().splits != splits) history = history.subspan(1);
  const FailedAttempt& last = history.back();
  const auto times = [&](auto predicate) { return std::count_if(history.begin(), history.end(), predicate); };
  if (blames_host(last)) {
    if (times(blames_host) > kHostRetries)
      return {Next::What::park, {}, 0, "the machine was full each time, even with nothing else of this run on it"};
    return {Next::What::retry_alone, {}, last.allowed_u, "the machine was full: the same again, alone"};
  }
  if (last.what == TaskEvent::What::failed) return {Next::What::condemn, {}, 0, "the call failed"};
  if (last.what == TaskEvent::What::timed_out) return {Next::What::condemn, {}, 0, "the call ran out of time"};
  if (!own_evidence(last)) {
    const auto died = times([](const FailedAttempt& a) { return !own_evidence(a) && !blames_host(a); });
    if (died > 1) return {Next::What::condemn, {}, 0, "it died twice for no known reason"};
    return {Next::What::retry, {}, last.allowed_u, "it died for no known reason: once more as it was"};
  }
  if (last.evidence != Evidence::own_bound && within_declared(limits, last.allowed_u, last.needed_u))
    return {Next::What::retry, {}, limits.projection.uncertain, "it had less than was declared"};
  switch (limits.rules.action) {
    case ExceedAction::fail:
      return {Next::What::stop, {}, 0, "the policy is to fail"};
    case ExceedAction::park:
      return {Next::What::park, {}, 0, "the policy is to park"};
    case ExceedAction::grow:
      break;
    case ExceedAction::ask:
      break;
  }
  if (same_peak_twice(history))
    return {Next::What::condemn, {}, 0, "it took the same memory although more was allowed"};
  Next next = climb(limits, history, siblings, can_split);
  if (limits.rules.action == ExceedAction::ask) return {Next::What::ask, next.what, next.allowance, next.why};
  return next;
}

bool within_declared(const StageLimits& limits, std::uint64_t allowed_u, std::uint64_t needed_u) {
  return needed_u <= limits.projection.uncertain && below_declared(limits, allowed_u);
}

std::optional<std::uint64_t> grow_in_place(const StageLimits& limits, std::uint64_t allowed_u, std::uint64_t needed_u,
                                           std::uint64_t free_bytes) {
  const Projection& projection = limits.projection;
  const bool declared = within_declared(limits, allowed_u, needed_u);
  if (only_kept(limits.rules.action) && !declared) return std::nullopt;
  const std::uint64_t held = projection.with_uncertain(allowed_u);
  const std::uint64_t roomy =
      declared ? projection.uncertain : scaled(limits.rules.factor, std::max(allowed_u, kLeastDeclared));
  for (const std::uint64_t wanted : {std::max(roomy, needed_u), needed_u}) {
    const std::uint64_t total = projection.with_uncertain(wanted);
    if (wanted >= allowed_u && total <= limits.rules.cap && total - std::min(held, total) <= free_bytes) return wanted;
  }
  return std::nullopt;
}

std::int64_t grow_bound(double factor, std::int64_t bound, std::optional<std::int64_t> needed) {
  const double grown = std::ceil(factor * static_cast<double>(std::max<std::int64_t>(bound, 1)));
  if (!(grown < 0x1p53))
    throw Error(ErrorKind::invalid, "an extent of " + std::to_string(bound) + " cannot grow any further");
  return std::max(static_cast<std::int64_t>(grown), needed.value_or(0));
}

}  // namespace cuboid
