#include "engine/plugin/infer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "engine/plugin/abi_values.h"
#include "engine/plugin/calling_process.h"
#include "storage/error.h"
#include "storage/printable.h"

namespace cuboid {
namespace {

Trust trust_of(std::uint16_t trust) {
  switch (trust) {
    case CUBOID_EXACT:
      return Trust::exact;
    case CUBOID_BOUND:
      return Trust::bound;
    case CUBOID_GUESS:
      return Trust::guess;
    default:
      return Trust::unknown;
  }
}

[[noreturn]] void wrong(const std::string& id, const std::string& why) {
  throw Error(ErrorKind::plugin, id + ": its infer " + why, {{"function", id}});
}

InferAnswer::Output read_output(const std::string& id, const cuboid_out_fact& fact, std::size_t rank) {
  InferAnswer::Output output;
  const std::optional<DType> dtype = dtype_of(fact.dtype);
  output.trust = trust_of(fact.shape_trust);
  if (!dtype || fact.rank != rank || output.trust == Trust::unknown)
    wrong(id, "gave an output without a known type, the rank of the signature and a trust");
  output.dtype = *dtype;
  for (std::size_t a = 0; a < rank; ++a) {
    if (fact.max_shape[a] < 0 || fact.max_shape[a] > static_cast<std::int64_t>(Expression::kMaxValue))
      wrong(id, "gave the extent " + std::to_string(fact.max_shape[a]) + ", expected one from 0 to 2^53");
    output.max_shape.push_back(fact.max_shape[a]);
    output.likely_shape.push_back(std::clamp<std::int64_t>(fact.likely_shape[a], 0, fact.max_shape[a]));
  }
  return output;
}

InferAnswer::Bytes read_bytes(const std::string& id, std::uint64_t bytes, std::uint16_t trust) {
  const Trust known = trust_of(trust);
  if (known != Trust::unknown && bytes > static_cast<std::uint64_t>(Expression::kMaxValue))
    wrong(id, "gave " + std::to_string(bytes) + " bytes, expected at most 2^53");
  return {known == Trust::unknown ? 0 : bytes, known};
}

// A question as the ABI spells it.
struct AbiAsk {
  explicit AbiAsk(const InferAsk& from) : params(from.params), facts(from.dtypes.size()) {
    for (std::size_t k = 0; k < facts.size(); ++k) {
      facts[k] = {sizeof(cuboid_fact),
                  static_cast<std::uint16_t>(from.whole[k].size()),
                  0,
                  abi_dtype(from.dtypes[k]),
                  from.interior[k].data(),
                  from.halo[k].data(),
                  from.whole[k].data()};
      in.push_back(&facts[k]);
    }
    ask = {sizeof(cuboid_ask),
           static_cast<std::uint32_t>(in.size()),
           static_cast<std::uint32_t>(from.output_ranks.size()),
           params.size(),
           in.data(),
           params.data()};
  }
  AbiAsk(const AbiAsk&) = delete;
  AbiAsk& operator=(const AbiAsk&) = delete;

  AbiParams params;
  std::vector<cuboid_fact> facts;
  std::vector<const cuboid_fact*> in;
  cuboid_ask ask{};
};

// What the plugin says that a box of output k needs, by input.
std::vector<Box> needed_by(const std::string& id, const cuboid_fn& fn, const cuboid_ask& question, std::size_t k,
                           const Box& wanted, const InferAsk& ask) {
  cuboid_box want{};
  want.size = sizeof want;
  want.rank = static_cast<std::uint32_t>(wanted.shape.size());
  for (std::size_t a = 0; a < wanted.shape.size(); ++a) want.lo[a] = wanted.origin[a], want.hi[a] = wanted.end(a);
  std::vector<cuboid_box> needs(ask.whole.size(), cuboid_box{});
  std::vector<cuboid_box*> need;
  for (std::size_t n = 0; n < needs.size(); ++n) {
    needs[n].size = sizeof(cuboid_box);
    needs[n].rank = static_cast<std::uint32_t>(ask.whole[n].size());
    need.push_back(&needs[n]);
  }
  cuboid_status status = CUBOID_OK;
  const CallingProcess here;
  try {
    status = fn.regions(&question, static_cast<std::uint32_t>(k), &want, need.data());
    here.end_copy();
  } catch (...) {
    here.end_copy();
    throw Error(ErrorKind::plugin, id + ": its regions let an exception escape", {{"function", id}});
  }
  if (status != CUBOID_OK)
    throw Error(ErrorKind::invalid, id + ": its regions refuse these arguments: status " + std::to_string(status));
  std::vector<Box> boxes;
  for (std::size_t n = 0; n < needs.size(); ++n) {
    Box& box = boxes.emplace_back();
    for (std::size_t a = 0; a < ask.whole[n].size(); ++a) {
      const std::int64_t lo = needs[n].lo[a], hi = needs[n].hi[a];
      if (needs[n].rank != ask.whole[n].size() || lo < 0 || hi < lo || hi > ask.whole[n][a])
        throw Error(ErrorKind::plugin,
                    id + ": its regions ask for " + std::to_string(lo) + " to " + std::to_string(hi) + " along axis " +
                        std::to_string(a) + " of input " + std::to_string(n) + ", which has " +
                        std::to_string(ask.whole[n][a]),
                    {{"function", id}});
      box.origin.push_back(lo);
      box.shape.push_back(hi - lo);
    }
  }
  return boxes;
}

}  // namespace

InferAnswer call_infer(const PluginLibrary& library, std::size_t function, const InferAsk& ask) {
  return call_infer_watched(library, function, ask, [](const std::function<void()>& infer) { infer(); });
}

InferAnswer call_infer_watched(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                               const AroundInfer& around) {
  const std::string& id = library.manifest().functions[function].id;
  const cuboid_fn& fn = library.function(function);
  if (!fn.infer) wrong(id, "does not exist");
  const AbiAsk question(ask);
  std::vector<cuboid_out_fact> outputs(ask.output_ranks.size(), cuboid_out_fact{});
  std::vector<cuboid_out_fact*> out;
  for (cuboid_out_fact& output : outputs) {
    output.size = sizeof output;
    out.push_back(&output);
  }
  cuboid_answer answer{};
  answer.size = sizeof answer;
  answer.out = out.data();
  cuboid_status status = CUBOID_OK;
  const std::function<void()> infer = [&] { status = fn.infer(&question.ask, &answer); };
  const CallingProcess here;
  try {
    around(infer);
    here.end_copy();
  } catch (...) {
    here.end_copy();
    wrong(id, "let an exception escape");
  }
  if (status != CUBOID_OK)
    throw Error(ErrorKind::invalid, id + ": refuses these arguments: " +
                                        (answer.why ? printable(answer.why, 500) : "status " + std::to_string(status)));
  InferAnswer result;
  for (std::size_t k = 0; k < outputs.size(); ++k)
    result.outputs.push_back(read_output(id, outputs[k], ask.output_ranks[k]));
  result.call = read_bytes(id, answer.call_bytes, answer.call_trust);
  result.state = read_bytes(id, answer.state_bytes, answer.state_trust);
  result.outside = read_bytes(id, answer.outside_bytes, answer.outside_trust);
  return result;
}

RegionsAnswer call_regions(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                           const RegionsAsk& wanted) {
  const std::string& id = library.manifest().functions[function].id;
  const cuboid_fn& fn = library.function(function);
  if (!fn.regions) wrong(id, "is asked for regions, which it does not have");
  const AbiAsk question(ask);
  RegionsAnswer answer;
  for (const std::vector<Box>& outputs : wanted) {
    std::vector<std::optional<Box>> hulls(ask.whole.size());
    for (std::size_t k = 0; k < outputs.size(); ++k)
      for (std::size_t input = 0; const Box& box : needed_by(id, fn, question.ask, k, outputs[k], ask)) {
        std::optional<Box>& sum = hulls[input++];
        if (!box.empty() || !sum) sum = sum && !sum->empty() && !box.empty() ? hull(*sum, box) : box;
      }
    std::vector<Box>& boxes = answer.emplace_back();
    for (const std::optional<Box>& one : hulls) boxes.push_back(*one);
  }
  return answer;
}

}  // namespace cuboid
