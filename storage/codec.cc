// The chain of an array's codecs, and the table of codecs that there are.
#include "storage/codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "storage/codec_layout.h"
#include "storage/codec_sharding.h"
#include "storage/codec_stage.h"
#include "storage/crc32c.h"
#include "storage/opaque_type.h"

namespace cuboid {

namespace {

using nlohmann::json;

constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kMaxCodecs = 32;

void append_checksum(std::span<std::byte> room, std::size_t length) {
  const std::uint32_t crc = crc32c(room.first(length));
  for (std::size_t i = 0; i < kChecksumBytes; ++i) room[length + i] = static_cast<std::byte>(crc >> (8 * i));
}

std::span<const std::byte> verified(std::span<const std::byte> bytes) {
  if (bytes.size() < kChecksumBytes) throw_corrupt("crc32c", "has " + std::to_string(bytes.size()) + " bytes only");
  const auto content = bytes.first(bytes.size() - kChecksumBytes);
  std::uint32_t stored = 0;
  for (std::size_t i = kChecksumBytes; i-- > 0;) {
    stored = stored << 8 | std::to_integer<std::uint32_t>(bytes[content.size() + i]);
  }
  if (crc32c(content) != stored) throw_corrupt("crc32c", "does not match its checksum: the stored bytes have changed");
  return content;
}

// A stage and the checksums that follow it: they are computed in place, in the buffer that the stage filled.
struct Move {
  StagePtr stage;
  std::size_t checksums = 0;
  std::size_t decoded_bound = 0;  // the most that its decoded side ever holds
  std::size_t encoded_bound = 0;  // checksums included
};

// The moves of a chain run from buffer to buffer: the first reads the chunk, the last writes the destination, and what
// lies between is pooled. A layout that only swaps bytes needs no buffer when decoding: it is undone in the chunk.
class Chain final : public CodecChain {
 public:
  Chain(json codecs, std::unique_ptr<const Layout> layout, std::size_t chunk_bytes)
      : json_(std::move(codecs)), chunk_bytes_(chunk_bytes), layout_(layout.get()) {
    moves_.push_back({std::move(layout), 0, chunk_bytes, chunk_bytes});
  }

  void add_checksum() {
    sharding_ = nullptr;
    ++moves_.back().checksums;
    moves_.back().encoded_bound += kChecksumBytes;
    identity_ = false;
  }

  void add(StagePtr stage, const std::string& codec) {
    const std::size_t decoded = moves_.back().encoded_bound;
    if (decoded > stage->limit()) {
      throw Error(ErrorKind::invalid, "codec '" + codec + "' holds at most " + std::to_string(stage->limit()) +
                                          " bytes and is given chunks of " + std::to_string(decoded) +
                                          ": choose smaller chunks or another codec");
    }
    const std::size_t encoded = stage->bound(decoded);
    writable_ = writable_ && !stage->read_only();
    identity_ = fixed_size_ = false;
    sharding_ = nullptr;
    // An untouched chunk needs no move of its own before the first compressor.
    if (moves_[0].stage.get() == layout_ && moves_[0].checksums == 0 && layout_->identity()) {
      kept_layout_ = std::move(moves_[0].stage);
      moves_.clear();
    }
    moves_.push_back({std::move(stage), 0, decoded, encoded});
  }

  void add_sharding(std::unique_ptr<const Sharding> sharding) {
    const Sharding* added = sharding.get();
    add(std::move(sharding), "sharding_indexed");
    sharding_ = added;
  }

  void finish() {
    const Plan decode = decode_plan();
    std::size_t before = 0;
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      const bool last = i + 1 == moves_.size();
      const std::size_t target = last ? 0 : class_bytes(moves_[i].encoded_bound);
      const std::size_t scratch = moves_[i].stage->encode_scratch(moves_[i].decoded_bound);
      encode_scratch_ = std::max(encode_scratch_, before + target + scratch);
      before = target;
    }
    before = 0;
    for (std::size_t i = moves_.size(); i-- > decode.first;) {
      const std::size_t target = i == decode.first ? 0 : class_bytes(moves_[i].decoded_bound);
      const std::size_t scratch = moves_[i].stage->decode_scratch(moves_[i].decoded_bound);
      decode_scratch_ = std::max(decode_scratch_, before + target + scratch);
      before = target;
    }
  }

  std::size_t encoded_bound() const override { return moves_.back().encoded_bound; }
  std::size_t encode_scratch() const override { return encode_scratch_; }
  std::size_t decode_scratch() const override { return decode_scratch_; }
  bool ranged() const override {
    const Plan plan = decode_plan();
    return moves_.size() == plan.first + 1 && !layout_->permuted() && moves_.back().stage->ranged();
  }
  std::size_t range_scratch() const override {
    return ranged() ? moves_.back().stage->range_scratch(moves_.back().decoded_bound) : 0;
  }
  bool identity() const override { return identity_ && layout_->identity(); }
  bool writable() const override { return writable_; }
  bool fixed_size() const override { return fixed_size_; }
  json to_json() const override { return json_; }

  bool partial() const override { return sharding_ != nullptr; }
  void read_parts(const Store& store, std::span<ChunkPart> parts, MemoryAccount& account) const override {
    for (ChunkPart& part : parts) {
      part.part = layout_->stored(part.part);
      part.into = layout_->stored(part.into);
    }
    sharding_->read_parts(store, parts, account);
  }
  std::size_t parts_at_once(const Store& store) const override { return sharding_->parts_at_once(store); }
  std::size_t read_parts_memory(const Store& store, std::size_t parts, bool staged) const override {
    return sharding_->read_parts_memory(store, parts, staged || layout_->permuted());
  }

  std::size_t encode(std::span<const std::byte> chunk, std::span<std::byte> into,
                     MemoryAccount& account) const override {
    check_chunk(chunk.size());
    if (into.size() < encoded_bound()) {
      throw Error(ErrorKind::invalid, "encoding into " + std::to_string(into.size()) + " bytes: expected room for " +
                                          std::to_string(encoded_bound()));
    }
    Buffer held;
    std::span<const std::byte> current = chunk;
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      const Move& move = moves_[i];
      Buffer next;
      std::span<std::byte> target = into;
      if (i + 1 < moves_.size()) {
        next = account.acquire(move.encoded_bound);
        target = next.bytes();
      }
      std::size_t length = move.stage->encode(current, target, account);
      for (std::size_t n = 0; n < move.checksums; ++n, length += kChecksumBytes) append_checksum(target, length);
      current = target.first(length);
      held = std::move(next);
    }
    return current.size();
  }

  void decode(std::span<const std::byte> encoded, std::span<std::byte> chunk, MemoryAccount& account) const override {
    check_chunk(chunk.size());
    const Plan plan = decode_plan();
    Buffer held;
    std::span<const std::byte> current = encoded;
    for (std::size_t i = moves_.size(); i-- > plan.first;) {
      const Move& move = moves_[i];
      for (std::size_t n = 0; n < move.checksums; ++n) current = verified(current);
      Buffer next;
      std::span<std::byte> target = chunk;
      if (i > plan.first) {
        next = account.acquire(move.decoded_bound);
        target = next.bytes();
      }
      current = target.first(move.stage->decode(current, target, account));
      held = std::move(next);
    }
    if (current.size() != chunk.size()) {
      throw Error(ErrorKind::corrupt, "decodes to " + std::to_string(current.size()) + " bytes: expected a chunk of " +
                                          std::to_string(chunk.size()));
    }
    if (plan.swap_in_chunk) layout_->swap_in_place(chunk);
  }

  void decode_range(std::span<const std::byte> encoded, std::span<std::byte> chunk, std::size_t begin, std::size_t end,
                    MemoryAccount& account) const override {
    check_chunk(chunk.size());
    const Move& move = moves_.back();
    for (std::size_t n = 0; n < move.checksums; ++n) encoded = verified(encoded);
    move.stage->decode_range(encoded, chunk, begin, end, account);
    if (decode_plan().swap_in_chunk) layout_->swap_in_place(chunk.subspan(begin, end - begin));
  }

 private:
  struct Plan {
    std::size_t first = 0;       // the move that fills the chunk
    bool swap_in_chunk = false;  // the layout's move is left out and undone in the chunk instead
  };
  Plan decode_plan() const {
    const bool skip =
        moves_.size() > 1 && moves_[0].stage.get() == layout_ && !layout_->permuted() && moves_[0].checksums == 0;
    return {skip ? std::size_t{1} : 0, skip};
  }

  void check_chunk(std::size_t bytes) const {
    if (bytes == chunk_bytes_) return;
    throw Error(ErrorKind::invalid,
                "a chunk of " + std::to_string(bytes) + " bytes: expected " + std::to_string(chunk_bytes_));
  }

  json json_;
  std::size_t chunk_bytes_;
  const Layout* layout_;  // the stage of the first move, or kept_layout_
  StagePtr kept_layout_;
  std::vector<Move> moves_;
  const Sharding* sharding_ = nullptr;  // the last stage, where it is one
  bool identity_ = true, fixed_size_ = true, writable_ = true;
  std::size_t encode_scratch_ = 0, decode_scratch_ = 0;
};

// --- The table ------------------------------------------------------------------------------------------------------

struct Compressor {
  std::string_view name;
  std::string_view alias;  // also read
  StagePtr (*make)(CodecConfig&, DType);
};
constexpr Compressor kCompressors[] = {
    {"blosc", "numcodecs.blosc", make_blosc}, {"zstd", "numcodecs.zstd", make_zstd},
    {"gzip", "numcodecs.gzip", make_gzip},    {"numcodecs.zlib", "zlib", make_zlib},
    {"numcodecs.lz4", "lz4", make_lz4},       {"numcodecs.bz2", "bz2", make_bz2},
    {"numcodecs.lzma", "lzma", make_lzma},    {"numcodecs.shuffle", "shuffle", make_shuffle},
};

struct Named {
  const char* name;
  const char* doc;
  const char* json;  // what follows the bytes codec; @T stands for the item size, @S for the shuffle that fits it
};
constexpr Named kNamed[] = {
    {"none", "elements as they are", "[]"},
    {"blosc-lz4", "Blosc: shuffle, LZ4 level 5: the fastest, the default",
     R"([{"name":"blosc","configuration":{"cname":"lz4","clevel":5,"shuffle":"@S","typesize":@T,"blocksize":0}}])"},
    {"blosc-lz4hc", "Blosc: shuffle, LZ4HC level 5",
     R"([{"name":"blosc","configuration":{"cname":"lz4hc","clevel":5,"shuffle":"@S","typesize":@T,"blocksize":0}}])"},
    {"blosc-blosclz", "Blosc: shuffle, BloscLZ level 5",
     R"([{"name":"blosc","configuration":{"cname":"blosclz","clevel":5,"shuffle":"@S","typesize":@T,"blocksize":0}}])"},
    {"blosc-zlib", "Blosc: shuffle, zlib level 5",
     R"([{"name":"blosc","configuration":{"cname":"zlib","clevel":5,"shuffle":"@S","typesize":@T,"blocksize":0}}])"},
    {"blosc-zstd", "Blosc: shuffle, Zstandard level 5: small, for archives",
     R"([{"name":"blosc","configuration":{"cname":"zstd","clevel":5,"shuffle":"@S","typesize":@T,"blocksize":0}}])"},
    {"zstd", "Zstandard level 3", R"([{"name":"zstd","configuration":{"level":3,"checksum":false}}])"},
    {"gzip", "gzip level 5", R"([{"name":"gzip","configuration":{"level":5}}])"},
    {"zlib", "zlib level 5", R"([{"name":"numcodecs.zlib","configuration":{"level":5}}])"},
    {"lz4", "LZ4", R"([{"name":"numcodecs.lz4","configuration":{"acceleration":1}}])"},
    {"bz2", "bzip2 level 5", R"([{"name":"numcodecs.bz2","configuration":{"level":5}}])"},
    {"lzma", "LZMA (xz) preset 3",
     R"([{"name":"numcodecs.lzma","configuration":{"format":1,"check":-1,"preset":3,"filters":null}}])"},
};

// --- From JSON ------------------------------------------------------------------------------------------------------

struct CodecEntry {
  std::string name;
  json configuration;
};

CodecEntry parse_entry(const json& entry) {
  if (entry.is_string()) return {entry.get<std::string>(), json::object()};  // the short-hand of Zarr 3.1
  if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string()) {
    throw Error(ErrorKind::invalid, "codecs: " + entry.dump() + ": expected {\"name\": ..., \"configuration\": {...}}");
  }
  for (const auto& [key, value] : entry.items()) {
    if (key != "name" && key != "configuration" && key != "must_understand") {
      throw Error(ErrorKind::unsupported,
                  "codec '" + entry["name"].get<std::string>() + "': unknown key '" + key + "'");
    }
  }
  return {entry["name"].get<std::string>(), entry.value("configuration", json::object())};
}

// Whether a bytes codec stores in the byte order that is not this machine's.
bool swaps_bytes(CodecConfig& config, DType dtype) {
  // Only numbers must say it: writers leave it out for what has no byte order, and for structures in the usual one.
  const bool plain_number =
      dtype.size > 1 && (!dtype.opaque || dtype.opaque->form != OpaqueType::Form::structure) && has_byte_order(dtype);
  const std::string native = std::endian::native == std::endian::little ? "little" : "big";
  const std::string endian = plain_number ? config.text("endian") : config.text("endian", native);
  if (endian != "little" && endian != "big") config.fail("'endian' is '" + endian + "': expected little or big");
  return endian != native;
}

const Compressor* find_compressor(const std::string& name) {
  const auto found = std::find_if(std::begin(kCompressors), std::end(kCompressors),
                                  [&](const Compressor& c) { return name == c.name || name == c.alias; });
  return found == std::end(kCompressors) ? nullptr : found;
}

[[noreturn]] void throw_unknown(const std::string& name) {
  std::string known = "transpose, bytes, packbits, sharding_indexed, crc32c";
  for (const Compressor& compressor : kCompressors) known += ", " + std::string(compressor.name);
  throw Error(ErrorKind::unsupported, "codec '" + name + "' is not known: expected one of " + known);
}

[[noreturn]] void throw_order(const std::string& name) {
  throw Error(ErrorKind::invalid, "codec '" + name +
                                      "' is out of order: expected transposes first, then filters, then bytes, "
                                      "then compressors and checksums");
}

}  // namespace

std::shared_ptr<const CodecChain> make_codec_chain(const json& v3_codecs, const ChunkSpec& chunk) {
  if (!v3_codecs.is_array() || v3_codecs.empty() || v3_codecs.size() > kMaxCodecs) {
    throw Error(ErrorKind::invalid,
                "codecs: expected a list of 1 to 32 codecs, one of them 'bytes' or 'sharding_indexed'");
  }
  auto layout = std::make_unique<Layout>(chunk.dtype, chunk.shape);
  const std::size_t chunk_bytes = byte_count(chunk.shape, chunk.dtype);
  std::shared_ptr<Chain> chain;  // made by the first codec after the transposes
  DType dtype = chunk.dtype;     // of the elements, which filters change
  bool serialised = false;       // past the codec that turns elements into bytes
  for (const json& item : v3_codecs) {
    CodecEntry entry = parse_entry(item);
    CodecConfig config(entry.name, std::move(entry.configuration));
    if (entry.name == "transpose") {
      if (chain) throw_order(entry.name);
      layout->transpose(transpose_order(config, chunk.shape.size()));
    } else if (is_filter(entry.name)) {
      if (serialised) throw_order(entry.name);
      if (!chain) chain = std::make_shared<Chain>(v3_codecs, std::move(layout), chunk_bytes);
      auto [filter, encoded] = make_filter(config, dtype);
      chain->add(std::move(filter), entry.name);
      dtype = encoded;
    } else if (entry.name == "bytes" || entry.name == "endian") {  // "endian": drafts of Zarr v3
      if (serialised) throw_order(entry.name);
      const bool swapped = swaps_bytes(config, dtype);
      if (!chain) {
        layout->set_swapped(swapped);
        chain = std::make_shared<Chain>(v3_codecs, std::move(layout), chunk_bytes);
      } else if (swapped) {
        auto swap = std::make_unique<Layout>(dtype, Shape{element_count(chunk.shape)});
        swap->set_swapped(true);
        chain->add(std::move(swap), entry.name);
      }
      serialised = true;
    } else if (entry.name == "packbits") {
      if (serialised) throw_order(entry.name);
      if (!chain) chain = std::make_shared<Chain>(v3_codecs, std::move(layout), chunk_bytes);
      chain->add(make_packbits(config, dtype), entry.name);
      serialised = true;
    } else if (entry.name == "sharding_indexed") {
      if (chain) throw_order(entry.name);
      auto sharding = std::make_unique<Sharding>(config, ChunkSpec{chunk.dtype, layout->stored_shape(), chunk.fill});
      chain = std::make_shared<Chain>(v3_codecs, std::move(layout), chunk_bytes);
      chain->add_sharding(std::move(sharding));
      serialised = true;
    } else if (entry.name == "crc32c" || entry.name == "numcodecs.crc32c") {
      if (!serialised) throw_order(entry.name);
      chain->add_checksum();
    } else if (const Compressor* compressor = find_compressor(entry.name)) {
      if (!serialised) throw_order(entry.name);
      chain->add(compressor->make(config, dtype), entry.name);
    } else {
      throw_unknown(entry.name);
    }
    config.check_all_used();
  }
  if (!serialised) {
    throw Error(ErrorKind::invalid, "codecs: " + v3_codecs.dump() + " has no 'bytes' or 'sharding_indexed' codec");
  }
  chain->finish();
  return chain;
}

Buffer decode_bytes(const json& v3_codecs, std::span<const std::byte> encoded, std::size_t& length,
                    MemoryAccount& account) {
  constexpr std::size_t kFirst = std::size_t{64} << 10, kMost = std::size_t{1} << 31, kRatio = std::size_t{1} << 16;
  Buffer held;
  std::span<const std::byte> current = encoded;
  for (std::size_t i = v3_codecs.size(); i-- > 0;) {
    CodecEntry entry = parse_entry(v3_codecs[i]);
    if (entry.name == "crc32c" || entry.name == "numcodecs.crc32c") {
      current = verified(current);
      continue;
    }
    const Compressor* compressor = find_compressor(entry.name);
    if (!compressor) break;
    CodecConfig config(entry.name, std::move(entry.configuration));
    const StagePtr stage = compressor->make(config, kUint8);
    // Each trial has four times the room of the one before, as long as no compressor could have made so much so small.
    const std::size_t most = std::clamp<std::size_t>(current.size(), 16, kMost / kRatio) * kRatio;
    for (std::size_t room = std::clamp(4 * current.size(), kFirst, most);; room = std::min(4 * room, most)) {
      Buffer next = account.acquire(room);
      try {
        current = next.bytes().first(stage->decode(current, next.bytes(), account));
        held = std::move(next);
        break;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::corrupt || room >= most) throw;
      }
    }
  }
  if (!held) {  // no compressor
    held = account.acquire(std::max<std::size_t>(1, current.size()));
    std::copy(current.begin(), current.end(), held.data());
  } else if (!current.empty()) {
    std::memmove(held.data(), current.data(), current.size());
  }
  length = current.size();
  return held;
}

Buffer encode_bytes(const json& v3_codecs, std::span<const std::byte> value, std::size_t& length,
                    MemoryAccount& account) {
  Buffer held;
  std::span<const std::byte> current = value;
  for (const json& item : v3_codecs) {
    CodecEntry entry = parse_entry(item);
    const Compressor* compressor = find_compressor(entry.name);
    const bool checksum = entry.name == "crc32c" || entry.name == "numcodecs.crc32c";
    if (!compressor && !checksum) continue;  // what made the value
    Buffer next;
    std::size_t encoded = current.size();
    if (checksum) {
      next = account.acquire(encoded + kChecksumBytes);
      std::copy(current.begin(), current.end(), next.data());
      append_checksum(next.bytes(), encoded);
      encoded += kChecksumBytes;
    } else {
      CodecConfig config(entry.name, std::move(entry.configuration));
      const StagePtr stage = compressor->make(config, kUint8);
      if (encoded > stage->limit())
        throw Error(ErrorKind::unsupported, "codec '" + entry.name + "' holds at most " +
                                                std::to_string(stage->limit()) + " bytes and is given " +
                                                std::to_string(encoded) + ": choose smaller chunks");
      next = account.acquire(stage->bound(encoded));
      encoded = stage->encode(current, next.bytes(), account);
    }
    held = std::move(next);
    current = held.bytes().first(encoded);
  }
  if (!held) {
    held = account.acquire(current.size());
    std::copy(current.begin(), current.end(), held.data());
  }
  length = current.size();
  return held;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

void replace_all(std::string& text, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) text.replace(at, what.size(), by);
}

}  // namespace

json codecs_by_name(const std::string& name, DType dtype) {
  if (name.find('[') != name.npos) {
    json list = json::parse(name, nullptr, false);
    if (list.is_array()) return list;
    throw Error(ErrorKind::invalid, "codecs '" + name + "' are no JSON list");
  }
  const auto found =
      std::find_if(std::begin(kNamed), std::end(kNamed), [&](const Named& named) { return name == named.name; });
  if (found == std::end(kNamed)) {
    const auto nearest = std::min_element(std::begin(kNamed), std::end(kNamed), [&](const Named& a, const Named& b) {
      return edit_distance(name, a.name) < edit_distance(name, b.name);
    });
    throw Error(ErrorKind::invalid, "codecs '" + name + "' are not known: did you mean '" + nearest->name +
                                        "'? `cuboid array codecs` lists them all");
  }
  json bytes = {{"name", "bytes"}};
  if (has_byte_order(dtype)) bytes["configuration"] = {{"endian", "little"}};
  std::string rest = found->json;
  // Strings shuffle by character; Blosc knows no type sizes above 255.
  const std::uint32_t number = uniform_number_size(dtype);
  const std::uint32_t item = dtype.opaque && number > 0 ? number : dtype.size > 255 ? 1 : dtype.size;
  replace_all(rest, "@T", std::to_string(item));
  replace_all(rest, "@S", item > 1 ? "shuffle" : "bitshuffle");
  json codecs = json::array({std::move(bytes)});
  for (json& codec : json::parse(rest)) codecs.push_back(std::move(codec));
  return codecs;
}

std::vector<CodecName> codec_names() {
  std::vector<CodecName> names;
  for (const Named& named : kNamed) names.push_back({named.name, named.doc});
  return names;
}

}  // namespace cuboid
