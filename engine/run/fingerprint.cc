#include "engine/run/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "storage/buffer.h"
#include "storage/crc32c.h"
#include "storage/error.h"

namespace cuboid {
namespace {

// Raised whenever stored results of an older engine must not be taken for those of this one.
constexpr std::uint64_t kFingerprintVersion = 1;

void add_value(Digest& digest, const ParamValue& value) {
  digest.number(value.index());
  struct Visitor {
    Digest& out;
    void operator()(std::monostate) {}
    void operator()(bool v) { out.number(v); }
    void operator()(std::int64_t v) { out.number(static_cast<std::uint64_t>(v)); }
    void operator()(double v) { out.number(std::bit_cast<std::uint64_t>(v)); }
    void operator()(const std::string& v) { out.text(v); }
    void operator()(const std::vector<std::int64_t>& v) { out.shape(v); }
    void operator()(const std::vector<double>& v) {
      out.number(v.size());
      for (const double x : v) (*this)(x);
    }
    void operator()(const std::vector<std::string>& v) {
      out.number(v.size());
      for (const std::string& x : v) out.text(x);
    }
  };
  std::visit(Visitor{digest}, value);
}

void add_argument(Digest& digest, const std::variant<ArraySpec, Scalar>& argument) {
  digest.number(argument.index());
  if (const auto* spec = std::get_if<ArraySpec>(&argument)) {
    digest.text(to_string(spec->dtype)).number(spec->rank());
    for (const Extent& extent : spec->extents)  // a bound may grow without changing any result
      digest.number(extent.trust == Trust::exact ? static_cast<std::uint64_t>(extent.value) : ~std::uint64_t{0});
    return;
  }
  const Scalar& scalar = std::get<Scalar>(argument);
  digest.number(scalar.index());
  std::visit(
      [&](auto value) {
        const std::complex<double> wide(static_cast<std::complex<double>>(value));
        digest.number(std::bit_cast<std::uint64_t>(wide.real())).number(std::bit_cast<std::uint64_t>(wide.imag()));
        if constexpr (std::is_same_v<decltype(value), std::int64_t>) digest.number(static_cast<std::uint64_t>(value));
      },
      scalar);
}

void add_program(Digest& digest, const Plan& plan, const TaskProgram& program) {
  digest.number(program.ops.size());
  for (const ProgramOp& op : program.ops) {
    const KernelSpec& spec = op.kernel->spec();
    digest.text(op.kernel->identity()).text(spec.function).number(spec.args.size());
    for (const auto& argument : spec.args) add_argument(digest, argument);
    digest.number(spec.params.size());
    for (const auto& [name, value] : spec.params) add_value(digest.text(name), value);
    digest.number(static_cast<std::uint64_t>(op.consumer)).number(op.input).number(op.merges);
  }
  digest.shape(program.loop_block).number(program.steps.size());
  for (const Step& step : program.steps) {
    digest.number(static_cast<std::uint64_t>(step.what)).number(static_cast<std::uint64_t>(step.op));
    digest.number(static_cast<std::uint64_t>(step.buffer)).number(static_cast<std::uint64_t>(step.phase));
    digest.text(step.array < 0 ? std::string() : plan.arrays[static_cast<std::size_t>(step.array)].name);
    for (const auto* list : {&step.in, &step.out}) {
      digest.number(list->size());
      for (const int index : *list)
        if (step.what == Step::What::merge || step.what == Step::What::split || step.what == Step::What::move)
          digest.text(plan.arrays[static_cast<std::size_t>(index)].name);
        else
          digest.number(static_cast<std::uint64_t>(index));
    }
  }
}

// Everything that all blocks of a stage have in common.
Fingerprint stage_fingerprint(const Plan& plan, const Stage& stage,
                              std::map<int, std::unique_ptr<SourceIdentity>>& sources) {
  Digest digest;
  digest.number(kFingerprintVersion);
  add_program(digest, plan, stage.program);
  digest.shape(stage.grid.shape()).shape(stage.grid.block());
  for (const int index : stage.outputs) {
    const PlanArray& array = plan.arrays[static_cast<std::size_t>(index)];
    digest.text(array.name).number(static_cast<std::uint64_t>(array.role)).text(to_string(array.spec.dtype));
    if (array.zarr)
      digest.add(metadata_fingerprint(array.zarr->metadata()));
    else
      digest.number(array.ragged_axis);
  }
  for (const int index : stage.inputs) {
    const PlanArray& array = plan.arrays[static_cast<std::size_t>(index)];
    if (array.role != PlanArray::Role::source) continue;
    auto& source = sources[index];
    if (!source) source = std::make_unique<SourceIdentity>(*array.zarr);
    digest.add(source->metadata());
  }
  return digest.result();
}

// The pieces that a box of a ragged array meets, and where they lie relative to it: what a compact task depends on.
void add_pieces(Digest& digest, const PieceList& list, const std::vector<Fingerprint>& producer, std::int64_t begin,
                std::int64_t end) {
  const auto [first, last] = pieces_meeting(list, begin, end);
  for (std::size_t piece = first; piece < last; ++piece)
    digest.add(producer[static_cast<std::size_t>(list.pieces[piece].block)])
        .number(static_cast<std::uint64_t>(list.offsets[piece] - begin));
}

// A piece at a time, whatever its length; nullopt where it is gone.
std::optional<std::uint32_t> crc_of(const Store& store, const std::string& key, std::uint64_t bytes) {
  constexpr std::uint64_t kPiece = 1u << 20;
  MemoryAccount account;
  const Buffer piece = account.acquire(std::min(bytes, kPiece));
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < bytes; at += kPiece) {
    const auto part = piece.bytes().first(std::min(kPiece, bytes - at));
    try {
      if (!store.read_range(key, at, part)) return std::nullopt;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::corrupt) return std::nullopt;  // it has just become shorter
      throw;
    }
    crc = crc32c(part, crc);
  }
  return crc;
}

}  // namespace

Digest& Digest::number(std::uint64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}
Digest& Digest::text(std::string_view value) {
  number(value.size());
  bytes_.append(value);
  return *this;
}
Digest& Digest::shape(const Shape& value) {
  number(value.size());
  for (const std::int64_t extent : value) number(static_cast<std::uint64_t>(extent));
  return *this;
}
Fingerprint Digest::result() const {
  const XXH128_hash_t hash = XXH3_128bits(bytes_.data(), bytes_.size());
  return {hash.low64, hash.high64};
}
std::uint64_t hash_key(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

Fingerprint metadata_fingerprint(const ArrayMetadata& metadata) {
  Digest digest;
  digest.number(static_cast<std::uint64_t>(metadata.zarr_format)).shape(metadata.shape).shape(metadata.chunks);
  digest.shape(metadata.shards.value_or(Shape())).text(to_string(metadata.dtype));
  digest.text({reinterpret_cast<const char*>(metadata.fill.data()), metadata.fill.size()});
  digest.number(metadata.fill_undefined).text(metadata.codecs.dump());
  digest.text(metadata.chunk_key_encoding).text({&metadata.separator, 1});
  return digest.result();
}

SourceIdentity::SourceIdentity(ZarrArray array)
    : array_(std::move(array)),
      grid_(array_.shape(), array_.metadata().write_chunks()),
      metadata_(metadata_fingerprint(array_.metadata())) {
  try {
    array_.store().list(array_.path(), [&](std::string_view key, const Stamp& stamp) {
      stamps_.emplace_back(hash_key(key), SourceIdentity::hash(stamp));
    });
    listed_ = true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    stamps_.clear();
  }
  std::sort(stamps_.begin(), stamps_.end());
}

std::uint64_t SourceIdentity::hash(const Stamp& stamp) {
  Digest digest;
  digest.number(stamp.bytes).text(stamp.etag);
  if (stamp.etag.empty())
    digest.number(static_cast<std::uint64_t>(stamp.mtime_ns)).number(static_cast<std::uint64_t>(stamp.ctime_ns));
  return digest.result().low | 1;  // 0 stands for "no such chunk"
}

SourceIdentity::Chunk SourceIdentity::chunk(const Shape& index) const {
  const std::string key = array_.key_of(index);
  const std::uint64_t hashed = hash_key(key);
  std::uint64_t stamp = 0;
  if (!listed_) {
    const auto found = array_.store().stamp(key);
    stamp = found ? hash(*found) : 0;
  } else {
    const auto at = std::lower_bound(stamps_.begin(), stamps_.end(), std::pair(hashed, std::uint64_t{0}));
    if (at != stamps_.end() && at->first == hashed) stamp = at->second;
  }
  const auto known = recognised_.find(hashed);
  return {known == recognised_.end() ? stamp : known->second, stamp};
}

bool SourceIdentity::recognise(std::int64_t index, const Chunk& seen, std::uint64_t bytes,
                               std::optional<std::uint32_t> crc) {
  if (index < 0 || index >= grid_.size()) return false;
  const std::string key = array_.key_of(grid_.index(index));
  const std::uint64_t stamp = chunk(grid_.index(index)).stamp;
  if (stamp == 0) return false;
  if (stamp == seen.stamp) {
    if (seen.identity != stamp) recognised_[hash_key(key)] = seen.identity;
    return false;
  }
  const auto now = array_.store().stamp(key);
  if (!crc || !now || hash(*now) != stamp || now->bytes != bytes || !now->etag.empty()) return false;
  if (crc_of(array_.store(), key, bytes) != crc) return false;
  recognised_[hash_key(key)] = seen.identity;
  return true;
}

void SourceIdentity::add_chunks(const Box& box, Digest& digest) const {
  const Box blocks = grid_.blocks_meeting(box);
  if (blocks.empty()) return;
  Shape index = blocks.origin;
  for (;;) {
    digest.number(chunk(index).identity);
    std::size_t axis = index.size();
    while (axis-- > 0) {
      if (++index[axis] < blocks.end(axis)) break;
      index[axis] = blocks.origin[axis];
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

std::pair<std::size_t, std::size_t> pieces_meeting(const PieceList& list, std::int64_t begin, std::int64_t end) {
  // The last piece that begins at or before `begin` is the one that holds it: empty pieces before it begin there too.
  const auto after = std::upper_bound(list.offsets.begin(), list.offsets.end(), begin);
  const std::size_t first =
      after == list.offsets.begin() ? 0 : static_cast<std::size_t>(after - list.offsets.begin()) - 1;
  const auto stop = std::lower_bound(list.offsets.begin(), list.offsets.end(), std::max(begin, end));
  const auto last = std::min(static_cast<std::size_t>(stop - list.offsets.begin()), list.pieces.size());
  return {std::min(first, last), last};
}

std::vector<Fingerprint> fingerprint_stage(const Plan& plan, int stage_index,
                                           const std::vector<std::vector<Fingerprint>>& upstream,
                                           std::map<int, std::unique_ptr<SourceIdentity>>& sources,
                                           const Pieces& pieces) {
  const Stage& stage = plan.stages[static_cast<std::size_t>(stage_index)];
  const Fingerprint common = stage_fingerprint(plan, stage, sources);
  std::vector<Fingerprint> result(static_cast<std::size_t>(stage.grid.size()));
  Digest digest;
  for (std::int64_t block = 0; block < stage.grid.size(); ++block) {
    digest.clear();
    digest.add(common).number(static_cast<std::uint64_t>(block));
    for (const TaskBox& read : task_reads(plan, stage, block)) {
      const PlanArray& array = plan.arrays[static_cast<std::size_t>(read.array)];
      if (array.role == PlanArray::Role::source) {
        sources.at(read.array)->add_chunks(read.box, digest);
        continue;
      }
      const auto& producer = upstream[static_cast<std::size_t>(array.producer)];
      if (read.of_runs) {
        for (std::int64_t run = read.box.origin[0]; run < read.box.end(0); ++run)
          digest.add(producer[static_cast<std::size_t>(producing_block_of_run(plan, read.array, run))]);
        continue;
      }
      if (array.role == PlanArray::Role::pieces) {
        add_pieces(digest, *pieces.at(read.array), producer, read.box.origin[array.ragged_axis],
                   read.box.end(array.ragged_axis));
        continue;
      }
      for (const std::int64_t needed : producing_blocks(plan, read.array, read.box))
        digest.add(producer[static_cast<std::size_t>(needed)]);
    }
    result[static_cast<std::size_t>(block)] = digest.result();
  }
  return result;
}

}  // namespace cuboid
