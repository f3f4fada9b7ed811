// From steps to stages: every step that is not inlined becomes one or more stages that read stored arrays and write
// whole chunks of stored arrays.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/plan/passes.h"
#include "engine/plan/plan_json.h"

namespace cuboid::passes {

namespace {

// Whether blocks of `block` consist of whole chunks of `chunks`.
bool holds_whole(const Shape& block, const Shape& chunks, const Shape& extents) {
  for (std::size_t axis = 0; axis < block.size(); ++axis)
    if (block[axis] % chunks[axis] != 0 && block[axis] < extents[axis]) return false;
  return true;
}

class Lowering {
 public:
  explicit Lowering(Draft& draft) : draft_(draft), plan_(draft.plan) {
    for (const OutputRequest& request : draft.request->outputs) {
      const Value value{draft.index.at(&request.array.node()), request.array.output()};
      requests_[value].push_back(&request);
      wanted_.insert(value);
    }
    for (const PlannedStep& consumer : draft.steps)
      if (consumer.needed) wanted_.insert(consumer.inputs.begin(), consumer.inputs.end());
  }

  void lower() {
    const int count = static_cast<int>(draft_.steps.size());  // what follows are parts of these
    for (int k = 0; k < count; ++k) {
      const PlannedStep& step = draft_.steps[k];
      if (!step.needed || draft_.inlined.contains(k)) continue;
      if (step.node->source)
        source(k);
      else if (step.kernel->identity_map())
        moved(k);
      else if (step.kernel->reduction())
        reduced(k);
      else if (step.kernel->runs())
        sorted(k);
      else
        mapped(k);
    }
  }

 private:
  const PlannedStep& step(int k) const { return draft_.steps[k]; }

  bool wanted(const Value& value) const { return wanted_.contains(value); }

  int add_array(PlanArray array) {
    plan_.arrays.push_back(std::move(array));
    return static_cast<int>(plan_.arrays.size()) - 1;
  }

  int add_intermediate(const std::string& name, const ArraySpec& spec, const Shape& chunks) {
    ArrayMetadata metadata;
    metadata.shape = spec.max_shape();
    metadata.chunks = chunks;
    metadata.dtype = spec.dtype;
    metadata.fill.assign(spec.dtype.size, std::byte{0});
    metadata.codecs = codecs_by_name("blosc-lz4", spec.dtype);
    metadata.codecs.push_back({{"name", "crc32c"}});
    PlanArray array{name, PlanArray::Role::intermediate,           spec, chunks, -1,
                    {},   plan_.options.run_dir + "/data/" + name, 0,    false};
    array.zarr = ZarrArray::prepare(open_store(array.location), "", std::move(metadata));
    return add_array(std::move(array));
  }

  int add_output(const OutputRequest& request, const std::string& name, const ArraySpec& spec, const Shape& natural) {
    ArrayMetadata metadata = output_metadata(request, spec, natural);
    if (metadata.attributes.is_object()) metadata.attributes["cuboid"] = provenance(request.array.node(), name);
    PlanArray array{name, PlanArray::Role::output, spec, metadata.write_chunks(), -1, {}, request.path,
                    0,    request.overwrite};
    try {
      array.zarr = ZarrArray::prepare(open_store(request.path), "", std::move(metadata));
    } catch (Error& error) {
      throw error.add("output", request.path);
    }
    return add_array(std::move(array));
  }

  ArrayMetadata output_metadata(const OutputRequest& request, const ArraySpec& spec, const Shape& natural) const {
    ArrayMetadata metadata;
    if (request.like) metadata = *request.like;
    const auto check = [&](const Shape& chunks, const char* what) {
      if (chunks.size() != spec.rank() || std::any_of(chunks.begin(), chunks.end(), [](auto n) { return n < 1; }))
        throw Error(ErrorKind::invalid,
                    std::string(what) + " " + to_string(chunks) + " do not suit an array of shape " +
                        to_string(spec.max_shape()) + ": expected " + std::to_string(spec.rank()) +
                        " extents of at least 1",
                    {{"output", request.path}});
    };
    metadata.zarr_format = request.zarr_format;
    metadata.shape = spec.max_shape();
    metadata.dtype = spec.dtype;
    if (request.chunks) metadata.edges.clear();
    metadata.chunks = request.chunks ? *request.chunks : request.like ? request.like->chunks : natural;
    check(metadata.chunks, "chunks");
    metadata.shards = request.shards;
    if (metadata.shards) {
      check(*metadata.shards, "shards");
      for (std::size_t axis = 0; axis < spec.rank(); ++axis)
        if ((*metadata.shards)[axis] % metadata.chunks[axis] != 0)
          throw Error(ErrorKind::invalid,
                      "shards " + to_string(*metadata.shards) + " are not multiples of the chunks " +
                          to_string(metadata.chunks),
                      {{"output", request.path}});
    }
    if (!request.codecs.empty()) metadata.codecs = codecs_by_name(request.codecs, spec.dtype);
    if (!request.like) {
      metadata.fill.assign(spec.dtype.size, std::byte{0});
      if (request.zarr_format == 2) metadata.separator = '.';
    }
    if (!request.attributes.empty()) metadata.attributes.update(nlohmann::json::parse(request.attributes));
    return metadata;
  }

  // What made an output: written into its attributes.
  nlohmann::json provenance(const Node& node, const std::string& name) const {
    nlohmann::json made = {{"step", name}};
    if (node.kernel) made["function"] = node.kernel->spec().function, made["identity"] = node.kernel->identity();
    if (node.kernel && !node.kernel->spec().params.empty()) made["params"] = params_to_json(node.kernel->spec().params);
    return made;
  }

  // Where a value is stored: the first output that can take it as it comes, else an intermediate. The other outputs are
  // copied from there.
  int store(const Value& value, const ArraySpec& spec, const Shape& natural, bool any_chunks = false) {
    const std::string name = step(value.step).value_name(value.output);
    std::vector<const OutputRequest*> rest;
    int array = -1;
    const auto asked = requests_.find(value);
    for (const OutputRequest* request : asked == requests_.end() ? rest : asked->second) {
      const ArrayMetadata wanted = output_metadata(*request, spec, natural);
      if (array < 0 && (any_chunks || holds_whole(natural, wanted.write_chunks(), spec.max_shape())))
        array = add_output(*request, name, spec, natural);
      else
        rest.push_back(request);
    }
    if (array < 0) array = add_intermediate(name, spec, natural);
    draft_.arrays[value] = array;
    copies_[value] = std::move(rest);
    return array;
  }

  void copy_to_other_outputs(const Value& value) {
    int number = 0;
    for (const OutputRequest* request : copies_[value]) {
      const std::string name = step(value.step).value_name(value.output);
      const int to =
          add_output(*request, name, step(value.step).specs[value.output], step(value.step).chunks[value.output]);
      rechunk(name + ".rechunk" + (number++ ? std::to_string(number) : ""), {name}, draft_.arrays.at(value), to, {});
    }
  }

  int add_stage(Stage stage) {
    const int index = static_cast<int>(plan_.stages.size());
    for (int array : stage.outputs) plan_.arrays[array].producer = index;
    plan_.stages.push_back(std::move(stage));
    return index;
  }

  void source(int k) {
    const Value value{k, 0};
    PlanArray array{step(k).name,
                    PlanArray::Role::source,
                    step(k).specs[0],
                    step(k).chunks[0],
                    -1,
                    *step(k).node->source,
                    step(k).node->source->name(),
                    0,
                    false};
    draft_.arrays[value] = add_array(std::move(array));
    if (const auto asked = requests_.find(value); asked != requests_.end()) copies_[value] = asked->second;
    copy_to_other_outputs(value);
  }

  Stage new_stage(int k, std::string name, Grid grid) const {
    Stage stage;
    stage.name = std::move(name);
    stage.function = step(k).kernel->spec().function;
    stage.grid = std::move(grid);
    stage.options = step(k).node->options;
    const Isolation isolation = stage.options.isolation;
    stage.isolated =
        isolation == Isolation::process || (isolation == Isolation::automatic && step(k).kernel->foreign());
    return stage;
  }

  // The inlined steps of a stage, first to last, and the arrays that it reads.
  void describe(Stage& stage, int root) const {
    std::vector<int> members{root};
    for (std::size_t n = 0; n < members.size(); ++n)
      for (const Value& input : step(members[n]).inputs)
        if (draft_.inlined.contains(input.step)) members.push_back(input.step);
    std::sort(members.begin(), members.end());
    for (int member : members) stage.steps.push_back(step(member).owner());
    for (const Step& s : stage.program.steps)
      if (s.what == Step::What::read || s.what == Step::What::gather) stage.inputs.push_back(s.array);
    std::sort(stage.inputs.begin(), stage.inputs.end());
    stage.inputs.erase(std::unique(stage.inputs.begin(), stage.inputs.end()), stage.inputs.end());
  }

  void mapped(int k) {
    const Kernel& kernel = *step(k).kernel;
    Stage stage = new_stage(k, step(k).name, Grid(kernel.domain(), step(k).block));
    ProgramRequest request{.root = k, .block = step(k).block};
    std::vector<std::pair<std::size_t, int>> ragged;  // output, pieces
    for (std::size_t output = 0; output < kernel.outputs().size(); ++output) {
      const Value value{k, output};
      int array = -1;
      if (wanted(value) && kernel.outputs()[output].ragged_axis)
        ragged.emplace_back(output, array = add_pieces(k, output));
      else if (wanted(value))
        array = store(value, step(k).specs[output], step(k).chunks[output]);
      request.targets.push_back(array);
      if (array >= 0) stage.outputs.push_back(array);
    }
    stage.program = build_program(draft_, request);
    widen(draft_, stage, request);
    describe(stage, k);
    add_stage(std::move(stage));
    for (const auto& [output, pieces] : ragged) compact(k, output, pieces);
    for (std::size_t output = 0; output < kernel.outputs().size(); ++output) copy_to_other_outputs({k, output});
  }

  int add_pieces(int k, std::size_t output) {
    const std::string name = step(k).value_name(output) + ".pieces";
    PlanArray array{name,
                    PlanArray::Role::pieces,
                    step(k).specs[output],
                    step(k).kernel->room(output, step(k).block),
                    -1,
                    {},
                    plan_.options.run_dir + "/data/" + name,
                    *step(k).kernel->outputs()[output].ragged_axis,
                    false};
    return add_array(std::move(array));
  }

  // Dense chunks from the pieces that they meet, once all extents are known.
  void compact(int k, std::size_t output, int pieces) {
    const Value value{k, output};
    const ArraySpec& spec = step(k).specs[output];
    const int to = store(value, spec, step(k).chunks[output], true);
    const Shape chunks = plan_.arrays[to].chunks;
    Stage stage;
    stage.name = step(k).value_name(output) + ".compact";
    stage.function = "compact";
    stage.steps = {step(k).owner()};
    stage.grid = Grid(spec.max_shape(), chunks);
    stage.program = move_program(spec, within(chunks, spec.max_shape()), pieces, to, Move::gather);
    stage.inputs = {pieces};
    stage.outputs = {to};
    stage.compacts = true;
    add_stage(std::move(stage));
  }

  // One level of merges, as its way back needs to know it.
  struct MergeLevel {
    std::string number;  // in names
    Grid groups;         // of the runs that it merged
    int notes = -1;      // array: whose each row was
  };

  // Blocks yield sorted runs; levels of merges, until one is left; then dense chunks. Where ranks are wanted, the merges
  // are gone back: from the rows of the last run to those of the blocks' runs, and by them to the elements.
  void sorted(int k) {
    const std::shared_ptr<const Kernel> kernel = step(k).kernel;
    const RunsForm& form = *kernel->runs();
    const Grid blocks(kernel->domain(), step(k).block);
    std::int64_t runs = blocks.size();
    const bool ranks = form.ranks && wanted({k, *form.ranks});
    Stage stage = new_stage(k, step(k).name, blocks);
    ProgramRequest request{
        .root = k, .block = step(k).block, .targets = std::vector<int>(kernel->outputs().size(), -1)};
    std::vector<int> columns = add_columns(k, runs > 1 ? ".runs" : ".pieces");
    for (std::size_t c = 0; c < columns.size(); ++c) request.targets[form.columns[c]] = columns[c];
    stage.outputs = columns;
    if (ranks) {
      const Value value{k, *form.ranks};
      const ArraySpec& spec = step(k).specs[value.output];
      const Shape& chunks = step(k).chunks[value.output];
      const int places = runs > 1 ? add_intermediate(step(k).value_name(value.output) + ".places", spec, chunks)
                                  : store(value, spec, chunks);
      request.targets[value.output] = places;
      stage.outputs.push_back(places);
    }
    stage.program = build_program(draft_, request);
    describe(stage, k);
    add_stage(std::move(stage));
    std::vector<MergeLevel> levels;
    while (runs > 1) {
      MergeLevel level{levels.empty() ? "" : std::to_string(levels.size() + 1),
                       Grid({runs}, {std::min(kMergedRuns, runs)})};
      runs = level.groups.size();
      Stage merge;
      merge.name = step(k).name + ".merge" + level.number;
      merge.function = "merge";
      merge.steps = {step(k).owner()};
      merge.grid = level.groups;
      merge.inputs = columns;
      columns = add_columns(k, runs > 1 ? ".merged" + level.number : ".pieces");
      merge.outputs = columns;
      if (ranks) {
        level.notes = add_trace(k, *form.ranks, ".notes" + level.number, kUint8);
        merge.outputs.push_back(level.notes);
      }
      merge.program = merge_program(kernel, merge.inputs, columns, level.notes);
      add_stage(std::move(merge));
      levels.push_back(std::move(level));
    }
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (!wanted({k, form.columns[c]})) continue;
      compact(k, form.columns[c], columns[c]);
      copy_to_other_outputs({k, form.columns[c]});
    }
    if (!ranks) return;
    if (!levels.empty()) go_back(k, *form.ranks, request.targets[*form.ranks], levels);
    copy_to_other_outputs({k, *form.ranks});
  }

  void go_back(int k, std::size_t output, int places, const std::vector<MergeLevel>& levels) {
    int ranks = -1;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      Stage split;
      split.name = step(k).name + ".split" + level->number;
      split.function = "split";
      split.steps = {step(k).owner()};
      split.grid = level->groups;
      split.inputs = {level->notes};
      if (ranks >= 0) split.inputs.push_back(ranks);
      const int to = add_trace(k, output, ".ranks" + level->number, kInt64);
      split.program = split_program(step(k).kernel, level->notes, ranks, to);
      split.outputs = {to};
      add_stage(std::move(split));
      ranks = to;
    }
    const ArraySpec& spec = step(k).specs[output];
    Stage stage;
    stage.name = step(k).value_name(output);
    stage.function = "take";
    stage.steps = {step(k).owner()};
    stage.grid = Grid(step(k).kernel->domain(), step(k).block);
    const int to = store({k, output}, spec, step(k).chunks[output]);
    stage.program = look_up_program(spec, within(step(k).block, spec.max_shape()), places, ranks, to);
    stage.inputs = {places, ranks};
    stage.outputs = {to};
    add_stage(std::move(stage));
  }

  // A ragged array for each column of a step's runs. Its objects are as large as before it was known how long the result
  // is: the stages that wrote them have run.
  std::vector<int> add_columns(int k, const std::string& suffix) {
    std::vector<int> columns;
    for (std::size_t output : step(k).kernel->runs()->columns)
      columns.push_back(add_runs(step(k).value_name(output) + suffix, step(k).specs[output],
                                 std::min(kRunRows, step(k).kernel->outputs()[output].spec.extents[0].value)));
    return columns;
  }
  // One that says something of each row of all runs of a level: of as many as there are elements, at most.
  int add_trace(int k, std::size_t output, const std::string& suffix, DType dtype) {
    ArraySpec spec;
    spec.dtype = dtype;
    spec.extents = {{std::max<std::int64_t>(element_count(step(k).specs[output].max_shape()), 1), Trust::bound}};
    const std::int64_t most = kRunRows * static_cast<std::int64_t>(kInt64.size / dtype.size);
    return add_runs(step(k).value_name(output) + suffix, spec, std::min(most, spec.extents[0].value));
  }
  // Stored in objects of at most so many rows.
  int add_runs(const std::string& name, const ArraySpec& spec, std::int64_t most) {
    const std::int64_t rows = std::max<std::int64_t>(most, 1);
    return add_array(
        {name, PlanArray::Role::pieces, spec, {rows}, -1, {}, plan_.options.run_dir + "/data/" + name, 0, false});
  }

  static Shape within(Shape block, const Shape& extents) {
    for (std::size_t axis = 0; axis < block.size(); ++axis) block[axis] = std::min(block[axis], extents[axis]);
    return block;
  }

  void moved(int k) {
    const Value value{k, 0};
    const int from = draft_.arrays.at(step(k).inputs[0]);
    const int to = store(value, step(k).specs[0], step(k).chunks[0], true);
    rechunk(step(k).name, {step(k).owner()}, from, to, step(k).node->options);
    copy_to_other_outputs(value);
  }

  // Bytes that the block of one task may take, so that as many run at once as the user wants.
  std::uint64_t room(int from, int to) const {
    const PlanIo io(plan_);
    const auto beside = [&](int array) {
      const BufferDecl buffer{BufferDecl::Operand::input, 0, 0, plan_.arrays[array].spec.dtype,
                              plan_.arrays[array].chunks};
      return std::max(io.read(array, buffer), io.write(array, buffer));
    };
    const std::uint64_t base = draft_.plan.baselines.coordinator;
    const std::uint64_t budget = plan_.options.budget > base ? plan_.options.budget - base : 0;
    const std::uint64_t share = budget / static_cast<std::uint64_t>(std::max(plan_.options.workers, 1));
    const std::uint64_t io_bytes = std::max(beside(from), beside(to));
    return share > io_bytes ? (share - io_bytes) / 9 * 8 : 0;  // the pool rounds up by at most an eighth
  }

  void add_move(const std::string& name, const std::vector<std::string>& steps, int from, int to, const Shape& block,
                const StepOptions& options) {
    const ArraySpec& spec = plan_.arrays[from].spec;
    Stage stage;
    stage.name = name;
    stage.function = kMoveFunction;
    stage.steps = steps;
    stage.grid = Grid(spec.max_shape(), block);
    const auto &source = plan_.arrays[from].zarr, &target = plan_.arrays[to].zarr;
    const bool alike = source && plan_.arrays[to].role == PlanArray::Role::output && target->stored_alike(*source);
    stage.program =
        move_program(spec, within(block, spec.max_shape()), from, to, alike ? Move::as_stored : Move::recode);
    stage.inputs = {from};
    stage.outputs = {to};
    stage.options = options;
    add_stage(std::move(stage));
  }

  void rechunk(const std::string& name, const std::vector<std::string>& steps, int from, int to,
               const StepOptions& options) {
    const ArraySpec spec = plan_.arrays[from].spec;
    RechunkPlan way = plan_rechunk(spec.max_shape(), plan_.arrays[from].chunks, plan_.arrays[to].chunks,
                                   spec.dtype.size, room(from, to));
    follow_earlier(name, to, way);
    if (way.between) {
      const int between = add_intermediate(name + ".between", spec, *way.between);
      add_move(name + ".pass", steps, from, between, *way.first_block, {});
      from = between;
    }
    add_move(name, steps, from, to, way.block, options);
  }

  // A run directory keeps the blocks that its first plan chose.
  void follow_earlier(const std::string& name, int to, RechunkPlan& way) const {
    const Plan* earlier = draft_.request->earlier.get();
    const int last = earlier ? earlier->stage_index(name) : -1;
    if (last < 0) return;
    const Shape& block = earlier->stages[last].grid.block();
    if (block.size() != way.block.size() ||
        !holds_whole(block, plan_.arrays[to].chunks, plan_.arrays[to].spec.max_shape()))
      return;
    way = {block, {}, {}};
    if (const int first = earlier->stage_index(name + ".pass"); first >= 0) {
      way.first_block = earlier->stages[first].grid.block();
      way.between = earlier->arrays[earlier->stages[first].outputs[0]].chunks;
    }
  }

  // Levels of a tree: each task streams a group of blocks into partial results, until one group is left. `at_once`: one
  // group from the beginning.
  void reduced(int k, bool at_once = false) {
    const Kernel& kernel = *step(k).kernel;
    const ReductionForm& form = *kernel.reduction();
    Shape domain = kernel.domain();
    Shape inner = step(k).block;
    std::vector<int> partials;
    for (int level = 1;; ++level) {
      for (std::size_t axis : form.axes)
        domain[axis] = std::max<std::int64_t>(domain[axis], 1);  // nothing to add up: one task
      const Grid blocks(domain, inner);
      const Shape group = at_once ? blocks.counts() : reduction_group(blocks.counts(), form.axes, level == 1);
      Shape task = inner, groups = domain;
      bool last = true;
      for (std::size_t axis : form.axes) {
        task[axis] *= group[axis];
        groups[axis] = (blocks.counts()[axis] + group[axis] - 1) / group[axis];
        last &= groups[axis] == 1;
      }
      const std::string name =
          last ? step(k).name : step(k).name + ".partial" + (level > 1 ? std::to_string(level) : "");
      Stage stage = new_stage(k, name, Grid(domain, task));
      ProgramRequest request{.root = k,
                             .block = task,
                             .loop_block = inner,
                             .merges = level > 1,
                             .partial_inputs = partials,
                             .partial = !last};
      Shape next_inner = inner;
      for (std::size_t axis : form.axes) next_inner[axis] = 1;
      partials.clear();
      for (std::size_t n = 0; n < (last ? kernel.outputs().size() : form.states.size()); ++n) {
        const std::string suffix = form.states.size() > 1 ? "." + std::to_string(n) : "";
        const int array = last ? store({k, n}, step(k).specs[n], step(k).chunks[n])
                               : add_intermediate(name + suffix, ArraySpec(form.states[n], form.with_tail(groups, n)),
                                                  form.with_tail(next_inner, n));
        request.targets.push_back(array);
        stage.outputs.push_back(array);
        if (!last) partials.push_back(array);
      }
      stage.program = build_program(draft_, request);
      describe(stage, k);
      if (level > 1) stage.steps = {step(k).owner()};
      add_stage(std::move(stage));
      if (last) break;
      domain = groups;
      inner = next_inner;
    }
    for (std::size_t n = 0; n < kernel.outputs().size(); ++n) copy_to_other_outputs({k, n});
  }

  Draft& draft_;
  Plan& plan_;
  std::map<Value, std::vector<const OutputRequest*>> requests_;
  std::map<Value, std::vector<const OutputRequest*>> copies_;
  std::set<Value> wanted_;  // read by another step or asked for
};

}  // namespace

void lower(Draft& draft) { Lowering(draft).lower(); }

}  // namespace cuboid::passes
