// The parts of a codec chain. Private to storage/codec*.cc: a new codec is a class here and one line in codec.cc's
// table.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/buffer.h"
#include "storage/codec.h"
#include "storage/error.h"

namespace cuboid {

// One stage: some bytes to other bytes. Immutable, thread-safe. "decoded" is the side of the array.
class CodecStage {
 public:
  virtual ~CodecStage() = default;

  // Bytes that encoding `decoded` bytes never exceeds.
  virtual std::size_t bound(std::size_t decoded) const = 0;
  // The largest input that the format or its library can hold.
  virtual std::size_t limit() const { return std::size_t{1} << 61; }
  // Whether encode() is refused.
  virtual bool read_only() const { return false; }
  // What encode() and decode() charge to the account at their peak, for at most `decoded` bytes on the array's side.
  virtual std::size_t encode_scratch(std::size_t decoded) const = 0;
  virtual std::size_t decode_scratch(std::size_t decoded) const = 0;

  // Fills the front of `to` (at least bound(from.size()) bytes) and returns the length.
  virtual std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to,
                             MemoryAccount& account) const = 0;
  // Fills the front of `to` and returns the length; Error{corrupt} where the content needs more than to.size() bytes.
  virtual std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to,
                             MemoryAccount& account) const = 0;

  // True where a part of the decoded bytes can be had without decoding all of them.
  virtual bool ranged() const { return false; }
  // Where ranged(): fills at least the bytes [begin, end) of `to`, which is as long as the whole decoded value must be.
  virtual void decode_range(std::span<const std::byte> /*from*/, std::span<std::byte> /*to*/, std::size_t /*begin*/,
                            std::size_t /*end*/, MemoryAccount& /*account*/) const {}
  virtual std::size_t range_scratch(std::size_t /*decoded*/) const { return 0; }
};

// A codec's "configuration": every value is checked, every key must have been asked for. Errors name codec and key.
class CodecConfig {
 public:
  CodecConfig(std::string codec, nlohmann::json configuration);

  const std::string& codec() const { return codec_; }
  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high);
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high, std::int64_t fallback);
  bool boolean(const char* key, bool fallback);
  std::string text(const char* key);
  std::string text(const char* key, const std::string& fallback);
  const nlohmann::json* value(const char* key);  // nullptr where there is none
  void check_all_used() const;

  [[noreturn]] void fail(const std::string& what, ErrorKind kind = ErrorKind::invalid) const;

 private:
  std::string codec_;
  nlohmann::json json_;
  std::vector<std::string> used_;
};

[[noreturn]] void throw_corrupt(std::string_view codec, const std::string& what);

// What the codecs behind the first one that is neither a compressor nor a checksum were given: a value whose length no
// metadata tells. `length` becomes that of the value, which is at the front of the buffer. What it takes of the account
// is refused as everywhere: about five times what the value has, at its peak.
Buffer decode_bytes(const nlohmann::json& v3_codecs, std::span<const std::byte> encoded, std::size_t& length,
                    MemoryAccount& account);
// The inverse. `length` becomes that of what is to be stored, at the front of the buffer.
Buffer encode_bytes(const nlohmann::json& v3_codecs, std::span<const std::byte> value, std::size_t& length,
                    MemoryAccount& account);

// Compressors, by family. `decoded` is the largest input there will be.
using StagePtr = std::unique_ptr<const CodecStage>;
StagePtr make_blosc(CodecConfig& config, DType dtype);
StagePtr make_zstd(CodecConfig& config, DType dtype);
StagePtr make_lz4(CodecConfig& config, DType dtype);
StagePtr make_gzip(CodecConfig& config, DType dtype);
StagePtr make_zlib(CodecConfig& config, DType dtype);
StagePtr make_bz2(CodecConfig& config, DType dtype);
StagePtr make_lzma(CodecConfig& config, DType dtype);
StagePtr make_shuffle(CodecConfig& config, DType dtype);

// From elements to bytes, in the place of the bytes codec.
StagePtr make_packbits(CodecConfig& config, DType dtype);

// Filters: from elements of one type to elements of another, which is returned. Before the bytes codec.
bool is_filter(const std::string& name);
std::pair<StagePtr, DType> make_filter(CodecConfig& config, DType decoded);

}  // namespace cuboid
