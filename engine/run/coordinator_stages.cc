// Stages: what an earlier run left of them, when their extents become known, what follows when they are complete.
#include <algorithm>

#include "engine/run/coordinator.h"
#include "storage/error.h"

namespace cuboid {
namespace {

constexpr std::string_view kPieces = ".pieces";

// "sources" of "sources.pieces": the name that facts go by.
std::string value_name(const PlanArray& pieces) {
  const std::string& name = pieces.name;
  return name.ends_with(kPieces) ? name.substr(0, name.size() - kPieces.size()) : name;
}

// Task orders and journal rows name stages, blocks and arrays by index: a new plan may replace a running one where
// those mean the same.
bool same_stages(const Plan& a, const Plan& b, const Scheduler& scheduler) {
  if (a.stages.size() != b.stages.size() || a.arrays.size() != b.arrays.size()) return false;
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    if (a.stages[s].name != b.stages[s].name || a.stages[s].isolated != b.stages[s].isolated) return false;
    const Grid &x = a.stages[s].grid, &y = b.stages[s].grid;
    if (scheduler.is_open(static_cast<int>(s)) && (x.shape() != y.shape() || x.block() != y.block())) return false;
  }
  for (std::size_t k = 0; k < a.arrays.size(); ++k)
    if (a.arrays[k].name != b.arrays[k].name || a.arrays[k].role != b.arrays[k].role) return false;
  return true;
}

// Which output of its kernel a ragged array of the stage is.
std::int64_t kernel_output(const Stage& stage, int array) {
  for (const Step& step : stage.program.steps)
    if (step.what == Step::What::write_piece && step.array == array)
      return static_cast<std::int64_t>(stage.program.buffers[static_cast<std::size_t>(step.buffer)].index);
  return -1;
}

// Attempts that were killed leave objects behind under names of their own, slabs of a call above all: whatever the
// journal does not name goes.
void remove_strays(const PlanArray& ragged, const PieceList& named) {
  const auto store = open_store(ragged.location);
  store->erase_unfinished("");
  std::vector<std::uint64_t> keys;
  keys.reserve(named.pieces.size());
  for (const PieceList::Piece& piece : named.pieces) keys.push_back(hash_key(piece.key));
  std::sort(keys.begin(), keys.end());
  std::vector<std::string> strays;
  store->list("", [&](std::string_view key, const Stamp&) {
    if (!std::binary_search(keys.begin(), keys.end(), hash_key(key))) strays.emplace_back(key);
  });
  for (const std::string& key : strays) store->erase(key);
}

}  // namespace

// --- going on from an earlier run

void Coordinator::resume() {
  do {
    if (restart_) stopping_ = false;
    restart_ = false;
    stages_.assign(plan_->stages.size(), {});
    pieces_.clear();
    newly_complete_.clear();
    recall_ = std::make_unique<Recall>(*plan_, journal_);
    scheduler_ = std::make_unique<Scheduler>(*plan_);
    recall_answers();
    for (int s = 0; s < static_cast<int>(stages_.size()); ++s) set_up_stage(s);
    open_stages();
    for (const auto& [name, row] : recall_->recognised()) journal_.add_source(name, row);
  } while (restart_);
  journal_.commit(true);
}

bool Coordinator::nothing_to_do() const {
  for (int s = 0; s < static_cast<int>(plan_->stages.size()); ++s)
    if (!scheduler_->complete(s)) return false;
  return std::all_of(plan_->arrays.begin(), plan_->arrays.end(), [&](const PlanArray& output) {
    return output.role != PlanArray::Role::output || is_published(output, journal_);
  });
}

// As the room is now: of what the process was planned to take it may take more.
ExceedRules Coordinator::rules_of(int index) const {
  const Stage& of = stage(index);
  ExceedRules rules = resolve_rules(setup_.options.on_exceed, of.options.on_exceed,
                                    setup_.options.override_step_policies, room(of.isolated));
  if (rules.action == ExceedAction::ask && !setup_.options.decider) rules.action = ExceedAction::park;
  return rules;
}

void Coordinator::set_up_stage(int index) {
  StageRun& run = run_of(index);
  const Stage& of = stage(index);
  run.limits = {rules_of(index), plan_->options.budget, of.projection};
  Projection& projection = run.limits.projection;
  run.estimated = projection.uncertain > 0 || projection.unknown || projection.outside > 0;
  // What bypasses the host is an estimate even where its number is trusted: nothing refuses it exactly.
  if (projection.uncertain == 0 && !projection.unknown) projection.around_call = projection.sure;
  if (!run.result) {
    for (const JournalTaught& taught : journal_.taught())
      if (taught.stage == of.name)
        run.classes[taught.shape_class] = {taught.finished, taught.worst_finished, taught.worst_seen, taught.above};
    run.result = &ledger_.stages[of.name];
    if (const auto standing = standing_.find(of.name); standing != standing_.end()) run.always = standing->second;
    run.failed_before = journal_.failed_attempts(of.name);
  }
}

bool Coordinator::extents_known(int index) const {
  const auto& inputs = stage(index).inputs;
  return std::all_of(inputs.begin(), inputs.end(), [&](int input) {
    const PlanArray& from = array(input);
    return from.producer < 0 ||
           (recall_->remembered(from.producer) && (from.role != PlanArray::Role::pieces || pieces_.contains(input)));
  });
}

void Coordinator::open_stages() {
  const int count = static_cast<int>(plan_->stages.size());
  for (bool again = true; again;) {
    again = false;
    bool learned = false;
    for (int s = 0; s < count && !learned; ++s) {
      if (recall_->remembered(s) || !extents_known(s)) continue;
      recall_->remember(*plan_, s, pieces_);
      again = true;
      // All of its rows count: its extents are known even if its pieces were deleted when they had served.
      if (recall_->record(s).known.full()) learned |= learn_extents(s);
    }
    if (learned && !replan()) return;
  }
  const std::vector<BlockSet> needed = recall_->needed(*plan_, pieces_);
  for (int s = 0; s < count; ++s) {
    if (!recall_->remembered(s) || scheduler_->is_open(s)) continue;
    const StageRecord& record = recall_->record(s);
    const BlockSet& runs = needed[static_cast<std::size_t>(s)];
    BlockSet finished(runs.size());
    std::int64_t kept = 0;
    for (std::int64_t block = runs.next_absent(0); block < runs.size(); block = runs.next_absent(block + 1)) {
      finished.insert(block);
      kept += record.known.contains(block);
    }
    StageResult& result = *run_of(s).result;
    result.tasks_reused = std::max<std::int64_t>(0, kept - ledger_.ran[stage(s).name]);
    if (record.known.count() > 0) result.peak_bytes = std::max(result.peak_bytes.value_or(0), record.peak);
    result.allowed_bytes = std::max(result.allowed_bytes, record.allowed);
    for (const MeasuredBlock& measured : record.measured)
      siblings({s, measured.block}).add_finished(measured.peak_u, run_of(s).limits.projection.uncertain);
    scheduler_->open(s, std::move(finished));
    if (scheduler_->complete(s)) newly_complete_.insert(s);
  }
  if (threads_ || workers_) tell_kept();
}

// --- facts

// The user's own bound of a built-in function's whole result was too low: under `grow` what there is replaces it, else
// that is as far as the run goes. (A foreign function's bound is of one call, and was enforced there.)
bool Coordinator::exceeds_users_bound(int index, const PlanArray& ragged, std::int64_t rows) {
  const Extent& bound = ragged.spec.extents[ragged.ragged_axis];
  const ExceedAction action = run_of(index).limits.rules.action;
  if (bound.trust != Trust::guess || rows <= bound.value || stage(index).program.ops[0].kernel->foreign() ||
      action == ExceedAction::grow)
    return false;
  stop(4,
       Error(ErrorKind::over_budget,
             "'" + value_name(ragged) + "' has " + std::to_string(rows) + " rows where max_shape states " +
                 std::to_string(bound.value) + "; finished blocks are kept: go on with --on-exceed grow, or state more",
             {{"stage", stage(index).name}}));
  return true;
}

bool Coordinator::learn_extents(int index) {
  bool learned = false;
  for (const int output : stage(index).outputs) {
    const PlanArray& ragged = array(output);
    if (ragged.role != PlanArray::Role::pieces) continue;
    PieceList list = list_pieces(journal_, *plan_, output);
    if (ragged.name.ends_with(kPieces) && exceeds_users_bound(index, ragged, list.offsets.back())) return false;
    Shape shape = ragged.spec.max_shape();
    shape[ragged.ragged_axis] = list.offsets.back();
    pieces_[output] = std::make_shared<const PieceList>(std::move(list));
    pieces_changed_ = true;
    if (!ragged.name.ends_with(kPieces)) continue;  // runs that are to be merged: nothing else depends on how long
    const std::string name = value_name(ragged);
    const auto known = facts_.shapes.find(name);
    if (known != facts_.shapes.end() && known->second == shape) continue;
    facts_.shapes[name] = shape;
    learned = true;
    // What an earlier run found out is no news.
    if (threads_ || workers_) notify(RunEvent::What::facts, index, -1, 0, to_string(shape));
  }
  return learned;
}

bool Coordinator::replan() {
  PlanRequest request = setup_.request;
  request.earlier = plan_;
  std::shared_ptr<Plan> next;
  try {
    next = std::make_shared<Plan>(make_plan(request, setup_.resolvers, facts_));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid) throw;
    stop(5, Error(error.kind(),
                  "what was found leaves a step that cannot be computed: " + error.message() +
                      "; finished blocks are kept",
                  error.context()));
    return false;
  }
  if (next->refused) {
    const Refusal& refused = *next->refused;
    stop(4, Error(ErrorKind::over_budget,
                  "what was measured made the rest of the plan too large: " +
                      (refused.stage ? "stage '" + *refused.stage + "'" : std::string("the plan")) + " needs " +
                      format_size(refused.projected) + " of " + refused.resource + " where " +
                      format_size(refused.budget) +
                      " are to be had; finished blocks are kept, go on with: " + refused.hint));
    return false;
  }
  const bool same = same_stages(*plan_, *next, *scheduler_);
  plan_ = std::move(next);
  pieces_changed_ = true;
  if (!same) {
    // Everything done is in the journal: another coordinator goes on from there once running tasks have ended.
    restart_ = stopping_ = true;
    drop_questions();
    return false;
  }
  scheduler_->set_plan(*plan_);
  for (int s = 0; s < static_cast<int>(stages_.size()); ++s) set_up_stage(s);
  notify(RunEvent::What::planned);
  return true;
}

void Coordinator::hand_out_plan() {
  pieces_changed_ = false;
  if (restart_) return;
  bound_malloc();
  write_plan(*plan_, plan_->options.run_dir, ++ledger_.generation);
  for (Executor* executor : {threads_.get(), workers_.get()})
    if (executor) executor->replan(plan_, ledger_.generation, pieces_);
  // Lists of pieces take some memory, and what they were read from has left holes: known before tasks go on.
  trim_malloc();
  sample_memory();
}

bool Coordinator::grow_array_bound(const TaskRef& task, const TaskEvent& event, std::string& why) {
  const Facts before = facts_;
  const double factor = run_of(task.stage).limits.rules.factor;
  for (const int output : stage(task.stage).outputs) {
    const PlanArray& ragged = array(output);
    if (ragged.role != PlanArray::Role::pieces) continue;
    if (event.bound_output && *event.bound_output != kernel_output(stage(task.stage), output)) continue;
    const std::string name = value_name(ragged);
    const Stage& made_by = stage(task.stage);
    const std::int64_t bound = made_by.program.ops[0].kernel->output_extents(
        static_cast<std::size_t>(kernel_output(made_by, output)), made_by.grid.block())[ragged.ragged_axis];
    const auto grown = facts_.bounds.find(name);
    const std::int64_t current = grown == facts_.bounds.end() ? bound : std::max(bound, grown->second);
    if (event.bound_needed && *event.bound_needed <= current) continue;  // another block's failure raised it already
    facts_.bounds[name] = grow_bound(factor, current, event.bound_needed);
  }
  if (facts_.bounds == before.bounds) return true;
  PlanRequest request = setup_.request;
  request.earlier = plan_;
  const Plan next = make_plan(request, setup_.resolvers, facts_);
  if (next.refused) {
    why = "a larger bound would not fit: " + next.refused->hint;
    facts_ = before;
    return false;
  }
  for (const auto& [name, bound] : facts_.bounds) journal_.set_bound(name, bound);
  replan();
  return true;
}

// --- complete stages

void Coordinator::close_complete_stages() {
  while (!newly_complete_.empty() && !restart_) {
    const int index = *newly_complete_.begin();
    newly_complete_.erase(newly_complete_.begin());
    if (!run_of(index).closed) stage_complete(index);
  }
}

void Coordinator::stage_complete(int index) {
  StageRun& run = run_of(index);
  run.closed = true;
  if (run.started) notify(RunEvent::What::stage_done, index);
  bool commit_first = true;
  const auto commit = [&] {
    if (commit_first) journal_.commit(true);
    commit_first = false;
  };
  for (const int output : stage(index).outputs) {
    const PlanArray& made = array(output);
    if (made.role != PlanArray::Role::output || is_published(made, journal_)) continue;
    commit();
    if (!run.prepared) prepare_output(made, journal_);  // without tasks, or all of them kept
    publish_output(made, journal_, plan_->options.durable);
  }
  commit();
  remove_unused(index);
  const bool learned = learn_extents(index);
  for (const int output : stage(index).outputs)
    if (const auto named = pieces_.find(output); named != pieces_.end()) remove_strays(array(output), *named->second);
  if (learned) {
    for (const int output : stage(index).outputs)
      if (const auto fact = facts_.shapes.find(value_name(array(output))); fact != facts_.shapes.end())
        journal_.set_shape(fact->first, fact->second);
    if (!replan()) return;
  }
  if (!stopping_) open_stages();
}

bool Coordinator::gathered(int pieces) const {
  return std::any_of(plan_->stages.begin(), plan_->stages.end(), [&](const Stage& of) {
    return std::any_of(of.program.steps.begin(), of.program.steps.end(),
                       [&](const Step& step) { return step.what == Step::What::gather && step.array == pieces; });
  });
}

// Of all that a complete stage read or wrote: what nothing has yet to read goes. Its own outputs too, for a stage may
// have run again for the sake of one of them.
void Coordinator::remove_unused(int index) {
  std::vector<int> candidates = stage(index).inputs;
  candidates.insert(candidates.end(), stage(index).outputs.begin(), stage(index).outputs.end());
  for (const int candidate : candidates) {
    const PlanArray& of = array(candidate);
    if (of.role != PlanArray::Role::intermediate && of.role != PlanArray::Role::pieces) continue;
    bool used = false;
    for (int s = 0; s < static_cast<int>(plan_->stages.size()); ++s) {
      const auto& inputs = stage(s).inputs;
      used |= std::count(inputs.begin(), inputs.end(), candidate) > 0 && !scheduler_->complete(s);
    }
    if (used) continue;
    // What gathers asks again which pieces it met; of runs nothing is asked that their numbers do not say.
    if (!gathered(candidate)) pieces_.erase(candidate);
    if (!plan_->options.keep)
      remove_intermediate(of);
    else if (of.zarr)
      of.zarr->publish(false);
  }
}

void Coordinator::settle(RunResult& result) {
  result.plan = *plan_;
  result.stages.clear();
  for (int s = 0; s < static_cast<int>(plan_->stages.size()); ++s) {
    StageResult stage_result = *run_of(s).result;
    stage_result.tasks_done = scheduler_->is_open(s) ? scheduler_->finished(s).count() : 0;
    if (stage_result.peak_bytes)
      stage_result.allowed_bytes = std::max(stage_result.allowed_bytes, *stage_result.peak_bytes);
    result.stages.push_back(std::move(stage_result));
  }
}

}  // namespace cuboid
