// Attempts that did not succeed: what escalation says is done, and the user is asked where the policy wants that.
#include <algorithm>

#include "engine/run/coordinator.h"
#include "engine/run/split.h"
#include "engine/run/task_failure.h"
#include "storage/error.h"

namespace cuboid {
namespace {

std::string outcome_name(TaskEvent::What what) {
  switch (what) {
    case TaskEvent::What::exceeded:
      return "exceeded";
    case TaskEvent::What::died:
      return "died";
    case TaskEvent::What::timed_out:
      return "timed-out";
    default:
      return "failed";
  }
}

bool storage_failed(const TaskEvent& event) {
  if (event.what != TaskEvent::What::failed || !event.error) return false;
  const ErrorKind kind = event.error->kind();
  return kind == ErrorKind::io || kind == ErrorKind::corrupt || kind == ErrorKind::not_found;
}

std::optional<Choice::What> choice_named(const std::string& word) {
  using What = Choice::What;
  for (const What what : {What::grow, What::alone, What::split, What::park, What::stop})
    if (word == to_string(what)) return what;
  return std::nullopt;
}

std::string message_of(const TaskEvent& event) { return event.error ? event.error->message() : event.text; }

}  // namespace

std::uint64_t Coordinator::measured_u(const TaskEvent& event) const {
  const Projection& projection = stages_[static_cast<std::size_t>(event.order.stage)].limits.projection;
  const std::uint64_t beside = event.peak > projection.around_call ? event.peak - projection.around_call : 0;
  if (event.what != TaskEvent::What::done) return beside;
  // What bypasses the account shows in the task's own peak alone.
  return projection.outside > 0 ? std::max(event.result.call_peak, beside) : event.result.call_peak;
}

CallRecord& Coordinator::learned(TaskRef task) {
  CallKind kind = call_kind(stage(task.stage), task.block);
  CallRecord& record = ledger_.learned[kind];
  record.kind = std::move(kind);
  record.declared = run_of(task.stage).limits.projection.uncertain;
  return record;
}

// Only what somebody estimated may be exceeded.
bool Coordinator::may_be_exceeded(TaskRef task, const TaskEvent& event) const {
  if (event.evidence == Evidence::host) return true;  // nor is that anybody's promise
  if (event.evidence != Evidence::own_bound) return stages_[static_cast<std::size_t>(task.stage)].estimated;
  const auto& outputs = stage(task.stage).outputs;
  return std::any_of(outputs.begin(), outputs.end(), [&](int output) {
    const PlanArray& ragged = array(output);
    return ragged.role == PlanArray::Role::pieces && ragged.spec.extents[ragged.ragged_axis].trust == Trust::guess;
  });
}

bool Coordinator::can_split(const TaskOrder& order) const {
  return most_splits(stage(order.stage), order.block) > order.splits;
}

void Coordinator::on_failed(TaskEvent& event) {
  const Running running = take_running(event.order);
  event.order = running.order;  // the grant may have grown
  const TaskRef task{event.order.stage, event.order.block};
  StageRun& run = run_of(task.stage);
  if (running.question && questions_.erase(*running.question) > 0) setup_.options.decider->withdraw(*running.question);
  if (event.error && event.error->kind() == ErrorKind::cancelled && stopping_) return;
  run.result->seconds_lost += event.seconds;
  const std::uint64_t peak_u = run.estimated ? measured_u(event) : 0;
  journal_.add_failure({stage(task.stage).name, task.block, event.order.attempt, outcome_name(event.what),
                        to_string(event.evidence), event.order.limit, event.order.allowance, event.needed, event.peak,
                        peak_u, event.seconds, message_of(event)});
  History& history = histories_[{task.stage, task.block}];
  history.failed.push_back(
      {event.what, event.evidence, event.order.allowance, peak_u, event.needed, running.alone, event.order.splits});
  if (cancelled_) return;
  if (event.error && overwrote_memory(*event.error) && !stage(task.stage).isolated) {
    // Here, not in a worker that can be thrown away.
    spoilt_ = true;
    Error error(ErrorKind::plugin,
                "stage '" + stage(task.stage).name + "', block " + to_string(stage(task.stage).grid.index(task.block)) +
                    ": " + event.error->message() +
                    ". The call ran in this program's own process, so nothing more was computed or kept; without "
                    "`isolation: thread` the same command goes on in processes of their own",
                event.error->context());
    error.add("stage", stage(task.stage).name).add("block", to_string(stage(task.stage).grid.index(task.block)));
    park(task, 5, "memory was overwritten", event);
    return stop(5, std::move(error));
  }
  if (storage_failed(event)) {
    if (remove_damaged(task, *event.error)) return;
    park(task, 6, "storage failed", event);
    // A chunk that cannot be read says nothing about others; a store that fails will fail again.
    if (event.error->kind() == ErrorKind::io) stop(6, *event.error);
    return;
  }
  if (event.what == TaskEvent::What::exceeded && !may_be_exceeded(task, event)) {
    park(task, 5, "the plugin broke a promise: its manifest calls this number exact or a bound", event);
    if (run.limits.rules.action == ExceedAction::fail) stopping_ = true, drop_questions();
    return;
  }
  if (event.what == TaskEvent::What::exceeded && event.evidence != Evidence::host &&
      event.evidence != Evidence::own_bound) {
    CallRecord& record = learned(task);
    record.stats.add_failed(std::max(peak_u, event.needed), record.declared);
    record.peak = std::max(record.peak, peak_u);
    record.breaches += event.order.allowance >= record.declared || std::max(peak_u, event.needed) > record.declared;
  }
  if (event.what == TaskEvent::What::exceeded && event.evidence != Evidence::host)
    siblings(task).add_failed(peak_u, run.limits.projection.uncertain);
  if (history.decided) {
    const Choice choice = *history.decided;
    history.decided.reset();
    apply_choice(task, choice, {}, event);
    return;
  }
  if (event.evidence == Evidence::own_bound) return on_exceeded_bound(event, running);
  run.limits.rules = rules_of(task.stage);
  const Next next = decide(run.limits, history.failed, siblings(task), can_split(event.order));
  if (next.what == Next::What::ask && run.always) return apply_choice(task, *run.always, next, event);
  apply(task, next, event);
}

// The chunk or piece of an intermediate that could not be read goes, and another coordinator finds it missing: the
// block that made it runs again. Once for each: storage that damages what it is given is not to be argued with.
bool Coordinator::remove_damaged(TaskRef task, const Error& error) {
  const auto said = [&](std::string_view key) -> std::string {
    for (const auto& [name, value] : error.context())
      if (name == key) return value;
    return {};
  };
  for (const int input : stage(task.stage).inputs) {
    const PlanArray& read = array(input);
    std::string damaged;
    if (read.role == PlanArray::Role::intermediate && said("array") == read.zarr->name()) damaged = said("chunk");
    if (const auto list = pieces_.find(input); list != pieces_.end())
      for (const PieceList::Piece& piece : list->second->pieces)
        if (!piece.key.empty() && said("file") == open_store(read.location)->describe(piece.key)) damaged = piece.key;
    if (damaged.empty()) continue;
    if (!ledger_.replaced.insert(read.name + " " + damaged).second) return false;
    (read.zarr ? read.zarr->mutable_store() : *open_store(read.location)).erase(damaged);
    notify(RunEvent::What::notice, task.stage, task.block, 0,
           damaged + " of " + read.name + " was damaged: the block that made it is computed again");
    restart_ = stopping_ = true;
    drop_questions();
    return true;
  }
  return false;
}

void Coordinator::on_exceeded_bound(TaskEvent& event, const Running&) {
  const TaskRef task{event.order.stage, event.order.block};
  StageRun& run = run_of(task.stage);
  const auto attempts = static_cast<int>(histories_[{task.stage, task.block}].failed.size());
  Next next{Next::What::retry, Next::What::retry, event.order.allowance, "its result was larger than its bound"};
  if (event.bound_needed) next.why += ": it has " + std::to_string(*event.bound_needed) + " rows";
  if (run.limits.rules.action == ExceedAction::fail) next.what = Next::What::stop;
  if (run.limits.rules.action == ExceedAction::park) next.what = Next::What::park;
  if (run.limits.rules.action == ExceedAction::grow && attempts >= run.limits.rules.max_attempts)
    next.what = Next::What::park;
  if (run.limits.rules.action == ExceedAction::ask) {
    if (run.always) return apply_choice(task, *run.always, next, event);
    next.what = Next::What::ask;
  }
  apply(task, next, event);
}

void Coordinator::apply(TaskRef task, const Next& next, const TaskEvent& event) {
  StageRun& run = run_of(task.stage);
  History& history = histories_[{task.stage, task.block}];
  switch (next.what) {
    case Next::What::ask:
      return ask(task, next, event, false);
    case Next::What::stop:
      park(task, 4, next.why, event);
      stopping_ = true;
      return drop_questions();
    case Next::What::park:
      return park(task, 4, next.why, event);
    case Next::What::condemn:
      park(task, 5, next.why, event);
      if (run.limits.rules.action == ExceedAction::fail) stopping_ = true, drop_questions();
      return;
    case Next::What::split:
      history.splits = 2 * event.order.splits;
      break;
    case Next::What::retry:
    case Next::What::retry_alone:
      break;
  }
  if (event.evidence == Evidence::own_bound) {
    std::string why;
    if (!grow_array_bound(task, event, why)) return park(task, 4, why, event);
    if (restart_) return;
  }
  history.next = next;
  if (history.failed.size() == 1) ++run.result->tasks_retried;
  const std::uint64_t limit =
      run.estimated ? run.limits.projection.with_uncertain(next.allowance) : run.limits.projection.peak;
  const std::string pieces = history.splits > 1 ? "in " + std::to_string(history.splits) + " pieces, " : "";
  notify(RunEvent::What::task_retried, task.stage, task.block, limit,
         pieces + next.why + " (" + message_of(event) + ")");
  scheduler_->again(task);
}

void Coordinator::park(TaskRef task, int code, const std::string& why, const TaskEvent& event) {
  StageRun& run = run_of(task.stage);
  const Projection& projection = run.limits.projection;
  ParkedBlock parked;
  parked.stage = stage(task.stage).name;
  parked.block = task.block;
  parked.index = stage(task.stage).grid.index(task.block);
  // A built-in function beyond its exact projection is this program's fault.
  const bool internal = event.error && event.error->kind() == ErrorKind::over_budget && !run.estimated &&
                        event.what == TaskEvent::What::failed;
  parked.exit_code = internal ? 1 : code;
  parked.allowed = event.order.limit;
  parked.peak = event.peak;
  parked.needed = event.needed > 0 ? projection.with_uncertain(event.needed) : 0;
  parked.bound = event.evidence == Evidence::own_bound;
  parked.why = why;
  parked.error = event.error;
  journal_.add_parked({parked.stage, task.block, parked.exit_code, why + ": " + message_of(event)});
  ledger_.parked.push_back(std::move(parked));
  ++run.result->parked;
  scheduler_->park(task);
  notify(RunEvent::What::task_parked, task.stage, task.block, event.order.limit, why + ": " + message_of(event));
}

// --- growth in place

bool Coordinator::grow(Running& running, std::uint64_t allowance) {
  StageRun& run = run_of(running.order.stage);
  const std::uint64_t limit = std::max(running.order.limit, run.limits.projection.with_uncertain(allowance));
  if (limit - running.order.limit > free_bytes(false) + running.reserved) return false;
  executor_for(running.isolated)->grow(running.order, limit, allowance);
  const std::uint64_t before = running.order.allowance;
  running.order.limit = limit;
  running.order.allowance = allowance;
  running.reserved = 0;
  if (!running.grown) ++run.result->tasks_grown;
  CallRecord& record = learned({running.order.stage, running.order.block});
  record.breaches += before <= record.declared && allowance > record.declared;
  running.grown = true;
  run.result->allowed_bytes = std::max(run.result->allowed_bytes, limit);
  bound_pool();
  notify(RunEvent::What::task_grown, running.order.stage, running.order.block, limit);
  return true;
}

void Coordinator::on_wants_growth(const TaskEvent& event) {
  Running* running = find_running(event.order);
  if (!running) return;
  StageRun& run = run_of(event.order.stage);
  const TaskRef task{event.order.stage, event.order.block};
  std::optional<std::uint64_t> wanted;
  run.limits.rules = rules_of(task.stage);
  if (run.estimated) wanted = grow_in_place(run.limits, running->order.allowance, event.needed, free_bytes(false));
  if (!wanted || stopping_) return executor_for(running->isolated)->refuse(running->order);
  running->growth_wanted = event.needed;
  const bool asks = run.limits.rules.action == ExceedAction::ask &&
                    !within_declared(run.limits, running->order.allowance, event.needed);
  if (asks && !run.always) {
    running->reserved = run.limits.projection.with_uncertain(*wanted) -
                        std::min(running->order.limit, run.limits.projection.with_uncertain(*wanted));
    TaskEvent question = event;
    question.order = running->order;
    return ask(task, {Next::What::ask, Next::What::retry, *wanted, "more memory, in place"}, question, true);
  }
  const bool granted = !asks || run.always->what == Choice::What::grow;
  if (!granted || !grow(*running, *wanted)) executor_for(running->isolated)->refuse(running->order);
}

// --- questions

void Coordinator::recall_answers() {
  answered_.clear(), standing_.clear();
  for (const JournalAnswer& row : journal_.standing_answers()) {
    const auto what = choice_named(row.choice);
    if (!what) continue;
    Choice choice;
    choice.what = *what;
    choice.bytes = row.bytes;
    choice.always = row.always;
    if (row.always)
      standing_[row.stage] = choice;
    else
      answered_[{row.stage, row.block}].push_back(choice);
  }
}

// What was answered when this block asked before, in the order in which it asked.
std::optional<Choice> Coordinator::answered_before(TaskRef task) {
  const auto found = answered_.find({stage(task.stage).name, task.block});
  if (found == answered_.end() || found->second.empty()) return std::nullopt;
  const Choice choice = found->second.front();
  found->second.pop_front();
  return choice;
}

void Coordinator::ask(TaskRef task, const Next& proposed, const TaskEvent& event, bool held) {
  if (stopping_) {  // nobody will wait for an answer
    if (!held) return park(task, 4, "the run stopped before the question was asked", event);
    if (const Running* running = find_running(event.order)) executor_for(running->isolated)->refuse(running->order);
    return;
  }
  if (const auto choice = answered_before(task)) {
    notify(RunEvent::What::notice, task.stage, task.block, 0,
           std::string("as answered before: ") + to_string(choice->what));
    return settle({task, held, proposed, event}, *choice);
  }
  StageRun& run = run_of(task.stage);
  const Stage& of = stage(task.stage);
  const Projection& projection = run.limits.projection;
  Question question;
  question.id = next_question_++;
  question.stage = of.name;
  question.function = of.function;
  question.block = task.block;
  question.block_index = of.grid.index(task.block);
  question.allowed = event.order.limit;
  question.peak = event.peak;
  question.needed = event.needed > 0 ? projection.with_uncertain(event.needed) : 0;
  question.evidence = event.evidence;
  question.attempt = event.order.attempt;
  question.max_attempts = run.limits.rules.max_attempts;
  question.blocks_kept = scheduler_->finished(task.stage).count();
  question.blocks_total = of.grid.size();
  for (int s = 0; s < static_cast<int>(plan_->stages.size()); ++s)
    if (scheduler_->is_open(s)) question.tasks_kept += scheduler_->finished(s).count();
  question.tasks_total = plan_->tasks;
  question.total_now = base() + workers_base() + granted();
  question.held = held;

  const std::int64_t left = question.blocks_total - question.blocks_kept;
  const double mean = question.blocks_kept > 0 ? run.result->seconds / static_cast<double>(question.blocks_kept) : -1;
  const auto choice = [&](Choice::What what, std::uint64_t bytes, int at_once) {
    Choice c;
    c.what = what;
    c.bytes = bytes;
    c.concurrency = at_once;
    c.total = what == Choice::What::alone ? base() + (of.isolated ? plan_->baselines.worker : 0) + bytes
                                          : question.total_now - (held ? event.order.limit : 0) + bytes;
    if (mean >= 0 && at_once > 0) c.seconds = mean * static_cast<double>(left) / at_once;
    question.choices.push_back(c);
  };
  const auto at_once = [&](std::uint64_t bytes) {
    return tasks_at_once(plan_->options.budget, plan_->baselines, bytes, of.isolated, plan_->options.workers);
  };
  if (proposed.proposed == Next::What::retry) {
    const std::uint64_t bytes = run.estimated ? projection.with_uncertain(proposed.allowance) : projection.peak;
    choice(Choice::What::grow, bytes, at_once(bytes));
  }
  const std::uint64_t largest = projection.with_uncertain(largest_allowance(run.limits));
  if (event.evidence != Evidence::own_bound && proposed.proposed != Next::What::park && largest > event.order.limit)
    choice(Choice::What::alone, largest, 1);
  if (event.evidence != Evidence::own_bound && can_split(event.order))
    choice(Choice::What::split, event.order.limit, at_once(event.order.limit));
  if (proposed.proposed == Next::What::split) std::swap(question.choices.front(), question.choices.back());
  choice(Choice::What::park, 0, 0);
  choice(Choice::What::stop, 0, 0);
  if (Running* running = held ? find_running(event.order) : nullptr) running->question = question.id;
  questions_.emplace(question.id, Asked{task, held, proposed, event});
  setup_.options.decider->ask(question);
}

void Coordinator::answer(const Decider::Answer& given) {
  const auto found = questions_.find(given.id);
  if (found == questions_.end()) return;  // the block has been decided otherwise meanwhile
  Asked asked = std::move(found->second);
  questions_.erase(found);
  const Choice& choice = given.choice;
  if (choice.what == Choice::What::split && !can_split(asked.event.order)) {
    notify(RunEvent::What::notice, asked.task.stage, asked.task.block, 0,
           "this function declares no axis along which its blocks may be split any further; choose another answer");
    if (Running* running = asked.held ? find_running(asked.event.order) : nullptr) running->question.reset();
    return ask(asked.task, asked.proposed, asked.event, asked.held);
  }
  StageRun& run = run_of(asked.task.stage);
  journal_.add_answer(
      {stage(asked.task.stage).name, asked.task.block, to_string(choice.what), choice.bytes, choice.always});
  const int step = asked.task.stage;
  if (choice.always) run.always = choice;
  settle(std::move(asked), choice);
  if (!choice.always) return;
  // What else of this step waits for an answer has it now. Settling may ask anew: only what is open already counts.
  std::vector<int> open;
  for (const auto& [id, other] : questions_)
    if (other.task.stage == step) open.push_back(id);
  for (const int id : open) {
    auto other = questions_.extract(id);
    if (!other) continue;
    setup_.options.decider->withdraw(id);
    settle(std::move(other.mapped()), choice);
  }
}

void Coordinator::settle(Asked asked, const Choice& choice) {
  if (!asked.held) return apply_choice(asked.task, choice, asked.proposed, asked.event);
  if (Running* running = find_running(asked.event.order)) answer_held(asked, *running, choice);
}

void Coordinator::answer_held(Asked& asked, Running& running, const Choice& choice) {
  running.question.reset();
  const Projection& projection = run_of(asked.task.stage).limits.projection;
  if (choice.what == Choice::What::grow) {
    const std::uint64_t chosen =
        choice.bytes > projection.around_call ? choice.bytes - projection.around_call : asked.proposed.allowance;
    if (grow(running, std::max(chosen, running.growth_wanted))) return;
  }
  running.reserved = 0;
  History& history = histories_[{asked.task.stage, asked.task.block}];
  history.decided = choice;
  executor_for(running.isolated)->refuse(running.order);
}

void Coordinator::apply_choice(TaskRef task, const Choice& choice, const Next& proposed, const TaskEvent& event) {
  StageRun& run = run_of(task.stage);
  const Projection& projection = run.limits.projection;
  Next next{Next::What::park, Next::What::park, 0, "the user's answer"};
  switch (choice.what) {
    case Choice::What::grow: {
      next.what = Next::What::retry;
      const std::uint64_t chosen = choice.bytes > projection.around_call ? choice.bytes - projection.around_call : 0;
      next.allowance = std::max({chosen, choice.always ? proposed.allowance : 0, event.needed});
      // A standing answer, or none that says how much: what the policy would do.
      if (chosen == 0 && proposed.what == Next::What::ask)
        next.what = proposed.proposed, next.allowance = proposed.allowance;
      if (projection.with_uncertain(next.allowance) > room(stage(task.stage).isolated)) next.what = Next::What::park;
      break;
    }
    case Choice::What::alone:
      run.limits.rules = rules_of(task.stage);
      next.what = Next::What::retry_alone;
      next.allowance = std::max(largest_allowance(run.limits), event.order.allowance);
      if (next.allowance <= event.order.allowance) next.what = Next::What::park;
      break;
    case Choice::What::stop:
      next.what = Next::What::stop;
      break;
    case Choice::What::split:
      if (can_split(event.order)) next.what = Next::What::split, next.allowance = event.order.allowance;
      break;
    case Choice::What::park:
      break;
  }
  apply(task, next, event);
}

void Coordinator::drop_questions() {
  for (auto& [id, asked] : questions_) {
    setup_.options.decider->withdraw(id);
    if (!asked.held) {
      park(asked.task, 4, "the run stopped before the question was answered", asked.event);
      continue;
    }
    Running* running = find_running(asked.event.order);
    if (!running) continue;
    running->question.reset();
    running->reserved = 0;
    executor_for(running->isolated)->refuse(running->order);
  }
  questions_.clear();
}

}  // namespace cuboid
