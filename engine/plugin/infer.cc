#include "engine/plugin/infer.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/plugin/abi_values.h"
#include "engine/plugin/printable.h"
#include "storage/error.h"

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

}  // namespace

InferAnswer call_infer(const PluginLibrary& library, std::size_t function, const InferAsk& ask) {
  return call_infer_watched(library, function, ask, [](const std::function<void()>& infer) { infer(); });
}

InferAnswer call_infer_watched(const PluginLibrary& library, std::size_t function, const InferAsk& ask,
                               const AroundInfer& around) {
  const std::string& id = library.manifest().functions[function].id;
  const cuboid_fn& fn = library.function(function);
  if (!fn.infer) wrong(id, "does not exist");
  std::vector<cuboid_fact> facts(ask.dtypes.size());
  std::vector<const cuboid_fact*> in;
  for (std::size_t k = 0; k < facts.size(); ++k) {
    facts[k] = {sizeof(cuboid_fact),
                static_cast<std::uint16_t>(ask.whole[k].size()),
                0,
                abi_dtype(ask.dtypes[k]),
                ask.interior[k].data(),
                ask.halo[k].data(),
                ask.whole[k].data()};
    in.push_back(&facts[k]);
  }
  std::vector<cuboid_out_fact> outputs(ask.output_ranks.size(), cuboid_out_fact{});
  std::vector<cuboid_out_fact*> out;
  for (cuboid_out_fact& output : outputs) {
    output.size = sizeof output;
    out.push_back(&output);
  }
  const AbiParams params(ask.params);
  const cuboid_ask question{sizeof(cuboid_ask),
                            static_cast<std::uint32_t>(in.size()),
                            static_cast<std::uint32_t>(out.size()),
                            params.size(),
                            in.data(),
                            params.data()};
  cuboid_answer answer{};
  answer.size = sizeof answer;
  answer.out = out.data();
  cuboid_status status = CUBOID_OK;
  const std::function<void()> infer = [&] { status = fn.infer(&question, &answer); };
  try {
    around(infer);
  } catch (...) {
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

}  // namespace cuboid
