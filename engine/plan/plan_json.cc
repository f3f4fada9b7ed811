#include "engine/plan/plan_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/plan/passes.h"
#include "engine/plan/plan.h"
#include "storage/error.h"

namespace cuboid {

using nlohmann::json;

namespace {

std::string dtype_text(DType dtype) { return to_string(dtype); }
DType dtype_of(const json& value) {
  const auto dtype = dtype_from_name(value.get<std::string>());
  if (!dtype) throw Error(ErrorKind::corrupt, "a saved plan names the dtype " + value.dump() + ", which is none");
  return *dtype;
}

// Doubles keep infinities and NaN, which JSON lacks.
json number(double value) {
  if (std::isfinite(value)) return value;
  return {{"double", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}
double double_of(const json& value) {
  if (!value.is_object()) return value.get<double>();
  const std::string text = value.at("double");
  return text == "nan" ? std::nan("") : text == "inf" ? INFINITY : -INFINITY;
}

json scalar_to_json(const Scalar& scalar) {
  if (const auto* value = std::get_if<bool>(&scalar)) return {{"bool", *value}};
  if (const auto* value = std::get_if<std::int64_t>(&scalar)) return {{"int", *value}};
  if (const auto* value = std::get_if<double>(&scalar)) return {{"float", number(*value)}};
  const auto& value = std::get<std::complex<double>>(scalar);
  return {{"complex", {number(value.real()), number(value.imag())}}};
}
Scalar scalar_from_json(const json& value) {
  if (value.contains("bool")) return value["bool"].get<bool>();
  if (value.contains("int")) return value["int"].get<std::int64_t>();
  if (value.contains("float")) return double_of(value["float"]);
  return std::complex<double>(double_of(value.at("complex")[0]), double_of(value.at("complex")[1]));
}

json options_to_json(const StepOptions& options) {
  json out = json::object();
  if (options.chunks) out["chunks"] = *options.chunks;
  if (options.timeout) out["timeout_ms"] = options.timeout->count();
  if (options.isolation != Isolation::automatic)
    out["isolation"] = options.isolation == Isolation::process ? "process" : "thread";
  const ExceedPolicy& policy = options.on_exceed;
  if (policy.action) out["action"] = static_cast<int>(*policy.action);
  if (policy.factor) out["factor"] = *policy.factor;
  if (policy.max_task_memory) out["max_task_memory"] = *policy.max_task_memory;
  if (policy.max_attempts) out["max_attempts"] = *policy.max_attempts;
  return out;
}
StepOptions options_from_json(const json& in) {
  StepOptions options;
  if (in.contains("chunks")) options.chunks = in["chunks"].get<Shape>();
  if (in.contains("timeout_ms")) options.timeout = std::chrono::milliseconds(in["timeout_ms"].get<std::int64_t>());
  if (in.contains("isolation"))
    options.isolation = in["isolation"] == "process" ? Isolation::process : Isolation::thread;
  if (in.contains("action")) options.on_exceed.action = static_cast<ExceedAction>(in["action"].get<int>());
  if (in.contains("factor")) options.on_exceed.factor = in["factor"].get<double>();
  if (in.contains("max_task_memory")) options.on_exceed.max_task_memory = in["max_task_memory"].get<std::uint64_t>();
  if (in.contains("max_attempts")) options.on_exceed.max_attempts = in["max_attempts"].get<int>();
  return options;
}

json array_to_json(const PlanArray& array) {
  json out = {{"name", array.name},
              {"role", static_cast<int>(array.role)},
              {"spec", spec_to_json(array.spec)},
              {"chunks", array.chunks},
              {"producer", array.producer},
              {"location", array.location},
              {"ragged_axis", array.ragged_axis}};
  if (array.zarr)
    out["metadata"] = metadata_to_json(array.zarr->metadata()), out["store"] = array.zarr->store().name(),
    out["path"] = array.zarr->path();
  return out;
}
PlanArray array_from_json(const json& in) {
  PlanArray array;
  array.name = in.at("name");
  array.role = static_cast<PlanArray::Role>(in.at("role").get<int>());
  array.spec = spec_from_json(in.at("spec"));
  array.chunks = in.at("chunks").get<Shape>();
  array.producer = in.at("producer");
  array.location = in.at("location");
  array.ragged_axis = in.at("ragged_axis");
  if (in.contains("metadata")) {
    // Sources may be what is read only.
    const auto open = array.role == PlanArray::Role::source ? ZarrArray::reopen : ZarrArray::prepare;
    array.zarr = open(open_store(in.at("store").get<std::string>()), in.at("path").get<std::string>(),
                      metadata_from_json(in["metadata"]));
  }
  return array;
}

json deciding_to_json(const std::optional<Deciding>& deciding) {
  if (!deciding) return nullptr;
  return {deciding->stage, deciding->smallest_budget, deciding->chunks ? json(*deciding->chunks) : json(nullptr),
          deciding->step, deciding->budget_then};
}
std::optional<Deciding> deciding_from_json(const json& in) {
  if (in.is_null()) return std::nullopt;
  Deciding deciding{in.at(0), in.at(1)};
  if (!in.at(2).is_null()) deciding.chunks = in.at(2).get<Shape>();
  deciding.step = in.at(3);
  deciding.budget_then = in.at(4);
  return deciding;
}

json program_to_json(const TaskProgram& program) {
  json ops = json::array(), buffers = json::array(), steps = json::array();
  for (const ProgramOp& op : program.ops)
    ops.push_back({{"kernel", kernel_spec_to_json(op.kernel->spec())},
                   {"move", op.kernel->identity_map()},
                   {"consumer", op.consumer},
                   {"input", op.input},
                   {"merges", op.merges}});
  for (const BufferDecl& b : program.buffers)
    buffers.push_back({static_cast<int>(b.operand), b.op, b.index, dtype_text(b.dtype), b.extents, b.fenced});
  for (const Step& s : program.steps)
    steps.push_back(
        {static_cast<int>(s.what), s.buffer, s.array, s.op, static_cast<int>(s.phase), s.in, s.out, s.slabs});
  return {{"ops", ops}, {"buffers", buffers}, {"steps", steps}, {"loop_block", program.loop_block}};
}
TaskProgram program_from_json(const json& in, const Resolvers& resolvers) {
  TaskProgram program;
  for (const json& op : in.at("ops")) {
    const KernelSpec spec = kernel_spec_from_json(op.at("kernel"));
    auto kernel =
        op.at("move").get<bool>() ? passes::make_move_kernel(spec.inputs().at(0)) : resolve_kernel(resolvers, spec);
    program.ops.push_back({std::move(kernel), op.at("consumer"), op.at("input"), op.at("merges")});
  }
  for (const json& b : in.at("buffers"))
    program.buffers.push_back({static_cast<BufferDecl::Operand>(b.at(0).get<int>()), b.at(1), b.at(2),
                               dtype_of(b.at(3)), b.at(4).get<Shape>(), b.at(5).get<bool>()});
  for (const json& s : in.at("steps"))
    program.steps.push_back({static_cast<Step::What>(s.at(0).get<int>()), s.at(1), s.at(2), s.at(3),
                             static_cast<Phase>(s.at(4).get<int>()), s.at(5).get<std::vector<int>>(),
                             s.at(6).get<std::vector<int>>(), s.at(7).get<std::vector<int>>()});
  program.loop_block = in.at("loop_block").get<Shape>();
  return program;
}

json stage_to_json(const Stage& stage) {
  const Projection& p = stage.projection;
  return {{"name", stage.name},
          {"function", stage.function},
          {"steps", stage.steps},
          {"confidence", static_cast<int>(stage.confidence)},
          {"approximate", stage.approximate},
          {"domain", stage.grid.shape()},
          {"block", stage.grid.block()},
          {"program", program_to_json(stage.program)},
          {"inputs", stage.inputs},
          {"outputs", stage.outputs},
          {"projection", {p.peak, p.sure, p.around_call, p.uncertain, p.outside, p.unknown}},
          {"numbers",
           {stage.numbers.tasks, stage.numbers.projected, stage.numbers.concurrency, stage.numbers.bytes_read,
            stage.numbers.bytes_written}},
          {"isolated", stage.isolated},
          {"options", options_to_json(stage.options)},
          {"compacts", stage.compacts}};
}
Stage stage_from_json(const json& in, const Resolvers& resolvers) {
  Stage stage;
  stage.name = in.at("name");
  stage.function = in.at("function");
  stage.steps = in.at("steps").get<std::vector<std::string>>();
  stage.confidence = static_cast<Confidence>(in.at("confidence").get<int>());
  stage.approximate = in.at("approximate");
  stage.grid = Grid(in.at("domain").get<Shape>(), in.at("block").get<Shape>());
  stage.program = program_from_json(in.at("program"), resolvers);
  stage.inputs = in.at("inputs").get<std::vector<int>>();
  stage.outputs = in.at("outputs").get<std::vector<int>>();
  const json& p = in.at("projection");
  stage.projection = {p.at(0), p.at(1), p.at(2), p.at(3), p.at(4), p.at(5)};
  const json& n = in.at("numbers");
  stage.numbers = {n.at(0), n.at(1), n.at(2), n.at(3), n.at(4)};
  stage.isolated = in.at("isolated");
  stage.options = options_from_json(in.at("options"));
  stage.compacts = in.at("compacts");
  return stage;
}

}  // namespace

json params_to_json(const Params& params) {
  json out = json::object();
  for (const auto& [name, value] : params)
    out[name] = std::visit(
        [](const auto& v) -> json {
          using V = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<V, std::monostate>)
            return nullptr;
          else if constexpr (std::is_same_v<V, double>)
            return {{"float", number(v)}};
          else if constexpr (std::is_same_v<V, std::vector<double>>) {
            json list = json::array();
            for (double d : v) list.push_back(number(d));
            return {{"floats", list}};
          } else if constexpr (std::is_same_v<V, std::vector<std::int64_t>>)
            return {{"ints", v}};
          else if constexpr (std::is_same_v<V, std::vector<std::string>>)
            return {{"strings", v}};
          else
            return v;
        },
        value);
  return out;
}

Params params_from_json(const json& in) {
  Params params;
  for (const auto& [name, value] : in.items()) {
    ParamValue& out = params[name];
    if (value.is_boolean())
      out = value.get<bool>();
    else if (value.is_number_integer())
      out = value.get<std::int64_t>();
    else if (value.is_string())
      out = value.get<std::string>();
    else if (value.is_object() && value.contains("float"))
      out = double_of(value["float"]);
    else if (value.is_object() && value.contains("ints"))
      out = value["ints"].get<std::vector<std::int64_t>>();
    else if (value.is_object() && value.contains("strings"))
      out = value["strings"].get<std::vector<std::string>>();
    else if (value.is_object() && value.contains("floats")) {
      std::vector<double> list;
      for (const json& item : value["floats"]) list.push_back(double_of(item));
      out = std::move(list);
    }
  }
  return params;
}

json spec_to_json(const ArraySpec& spec) {
  json extents = json::array();
  for (const Extent& extent : spec.extents) extents.push_back({extent.value, static_cast<int>(extent.trust)});
  return {{"dtype", dtype_text(spec.dtype)}, {"extents", extents}};
}

ArraySpec spec_from_json(const json& in) {
  ArraySpec spec;
  spec.dtype = dtype_of(in.at("dtype"));
  for (const json& extent : in.at("extents"))
    spec.extents.push_back({extent.at(0), static_cast<Trust>(extent.at(1).get<int>())});
  return spec;
}

json kernel_spec_to_json(const KernelSpec& spec) {
  json args = json::array(), max_shape = json::array();
  for (const auto& arg : spec.args)
    args.push_back(std::holds_alternative<Scalar>(arg) ? json{{"scalar", scalar_to_json(std::get<Scalar>(arg))}}
                                                       : spec_to_json(std::get<ArraySpec>(arg)));
  for (const auto& [output, shape] : spec.max_shape) max_shape.push_back({output, shape});
  json out = {{"function", spec.function}, {"args", args}, {"params", params_to_json(spec.params)}};
  if (!max_shape.empty()) out["max_shape"] = max_shape;
  if (spec.extra_memory) out["extra_memory"] = *spec.extra_memory;
  return out;
}

KernelSpec kernel_spec_from_json(const json& in) {
  KernelSpec spec;
  spec.function = in.at("function");
  for (const json& arg : in.at("args"))
    if (arg.contains("scalar"))
      spec.args.emplace_back(scalar_from_json(arg["scalar"]));
    else
      spec.args.emplace_back(spec_from_json(arg));
  spec.params = params_from_json(in.at("params"));
  if (in.contains("max_shape"))
    for (const json& item : in["max_shape"]) spec.max_shape[item.at(0).get<std::size_t>()] = item.at(1).get<Shape>();
  if (in.contains("extra_memory")) spec.extra_memory = in["extra_memory"].get<std::uint64_t>();
  return spec;
}

json extents_to_public_json(const ArraySpec& spec) {
  json shape = json::array();
  for (const Extent& extent : spec.extents)
    shape.push_back(extent.trust == Trust::exact ? json(extent.value) : json{{"max", extent.value}});
  return shape;
}

json plan_to_json(const Plan& plan) {
  json arrays = json::array(), stages = json::array();
  for (const PlanArray& array : plan.arrays) arrays.push_back(array_to_json(array));
  for (const Stage& stage : plan.stages) stages.push_back(stage_to_json(stage));
  return {{"version", 1},
          {"options",
           {{"budget", plan.options.budget},
            {"workers", plan.options.workers},
            {"run_dir", plan.options.run_dir},
            {"keep", plan.options.keep},
            {"durable", plan.options.durable}}},
          {"arrays", arrays},
          {"stages", stages},
          {"totals", {plan.bytes_read, plan.bytes_written, plan.disk_peak, plan.tasks}},
          {"deciding", deciding_to_json(plan.deciding)},
          {"checked_only", plan.checked_only}};
}

Plan plan_from_json(const json& in, const Resolvers& resolvers) {
  try {
    if (in.at("version") != 1)
      throw Error(ErrorKind::unsupported, "this plan was saved by another version of cuboid; run with --fresh");
    Plan plan;
    const json& options = in.at("options");
    plan.options.budget = options.at("budget");
    plan.options.workers = options.at("workers");
    plan.options.run_dir = options.at("run_dir");
    plan.options.keep = options.at("keep");
    plan.options.durable = options.at("durable");
    for (const json& array : in.at("arrays")) plan.arrays.push_back(array_from_json(array));
    for (const json& stage : in.at("stages")) plan.stages.push_back(stage_from_json(stage, resolvers));
    const json& totals = in.at("totals");
    plan.bytes_read = totals.at(0), plan.bytes_written = totals.at(1), plan.disk_peak = totals.at(2),
    plan.tasks = totals.at(3);
    plan.deciding = deciding_from_json(in.at("deciding"));
    plan.checked_only = in.at("checked_only").get<std::vector<std::string>>();
    return plan;
  } catch (const json::exception& error) {
    throw Error(ErrorKind::corrupt, std::string("a saved plan cannot be read: ") + error.what() + "; run with --fresh");
  }
}

}  // namespace cuboid
