// Blosc 1. It works on blocks and takes two temporaries of one block for each call, besides what the compressor inside
// takes for itself; the numbers below were measured by counting malloc (c-blosc 1.21.3) and tests/storage holds them.
#include <blosc.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "storage/codec_stage.h"

namespace cuboid {
namespace {

// The largest block that Blosc chooses by itself, whatever compressor, level and item size.
constexpr std::size_t kLargestAutoBlock = std::size_t{1} << 20;
constexpr std::size_t kSmallestForcedBlock = std::size_t{64} << 10;

struct BloscCompressor {
  const char* name;
  std::size_t encode_extra, decode_extra;  // beside the temporaries; zstd is computed
};
constexpr std::array<BloscCompressor, 6> kBloscCompressors = {{
    {"blosclz", 0, 0},
    {"lz4", 0, 0},
    {"lz4hc", 262'144 + 4096, 0},
    {"snappy", 174'816 + 4096, 0},
    {"zlib", 268'144 + 4096, 48 << 10},
    {"zstd", 0, 0},
}};

constexpr std::array<const char*, 3> kShuffles = {"noshuffle", "shuffle", "bitshuffle"};

std::uint32_t little_endian_32(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

class Blosc final : public CodecStage {
 public:
  Blosc(CodecConfig& config, DType dtype) {
    const std::string cname = config.text("cname", "lz4");
    const auto found = std::find_if(kBloscCompressors.begin(), kBloscCompressors.end(),
                                    [&](const BloscCompressor& c) { return cname == c.name; });
    if (found == kBloscCompressors.end()) {
      config.fail("'cname' is '" + cname + "': expected blosclz, lz4, lz4hc, snappy, zlib or zstd");
    }
    if (blosc_compname_to_compcode(found->name) < 0) {
      config.fail("'cname' is '" + cname + "', which this Blosc library was built without", ErrorKind::unsupported);
    }
    compressor_ = &*found;
    level_ = static_cast<int>(config.integer("clevel", 0, 9, 5));
    typesize_ = static_cast<std::size_t>(config.integer("typesize", 1, INT32_MAX, dtype.size));
    const std::string shuffle = config.text("shuffle", dtype.size > 1 ? "shuffle" : "bitshuffle");
    const auto mode = std::find(kShuffles.begin(), kShuffles.end(), shuffle);
    if (mode == kShuffles.end()) {
      config.fail("'shuffle' is '" + shuffle + "': expected noshuffle, shuffle or bitshuffle");
    }
    shuffle_ = static_cast<int>(mode - kShuffles.begin());
    block_ = static_cast<std::size_t>(config.integer("blocksize", 0, BLOSC_MAX_BUFFERSIZE, 0));
  }

  std::size_t bound(std::size_t decoded) const override { return decoded + BLOSC_MAX_OVERHEAD; }
  std::size_t limit() const override { return BLOSC_MAX_BUFFERSIZE; }

  std::size_t encode_scratch(std::size_t decoded) const override {
    const std::size_t block = largest_block(decoded);
    return temporaries(block, typesize_) + encode_extra(block);
  }
  std::size_t decode_scratch(std::size_t decoded) const override {
    return temporaries(largest_block(decoded), typesize_) + decode_extra();
  }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Charge scratch = account.charge(encode_scratch(from.size()));
    const int length = blosc_compress_ctx(level_, shuffle_, typesize_, from.size(), from.data(), to.data(),
                                          bound(from.size()), compressor_->name, block_, 1);
    if (length <= 0) {
      throw Error(ErrorKind::io, std::string("Blosc could not compress ") + std::to_string(from.size()) +
                                     " bytes with " + compressor_->name + " (code " + std::to_string(length) +
                                     "): is memory short?");
    }
    return static_cast<std::size_t>(length);
  }

  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Header header = checked(from, to.size());
    if (header.decoded == 0) return 0;
    // What another writer's blocks really take, where they are larger than what the metadata promised.
    const Charge scratch = account.charge(
        std::max(decode_scratch(header.decoded), temporaries(header.block, header.typesize) + decode_extra()));
    const int length = blosc_decompress_ctx(from.data(), to.data(), header.decoded, 1);
    if (length < 0 || static_cast<std::size_t>(length) != header.decoded) {
      throw_corrupt("blosc", "cannot be decompressed (code " + std::to_string(length) + ")");
    }
    return header.decoded;
  }

  bool ranged() const override { return true; }
  std::size_t range_scratch(std::size_t decoded) const override {
    return range_temporaries(largest_block(decoded), typesize_) + decode_extra();
  }
  // Blosc decodes the blocks that hold the items asked for aside and copies the items: for most of a chunk, decoding
  // all of it where it belongs is faster.
  void decode_range(std::span<const std::byte> from, std::span<std::byte> to, std::size_t begin, std::size_t end,
                    MemoryAccount& account) const override {
    const Header header = checked(from, to.size());
    if (header.decoded != to.size()) {
      throw_corrupt("blosc", "holds " + std::to_string(header.decoded) + " bytes: expected a chunk of " +
                                 std::to_string(to.size()));
    }
    if (end - begin > to.size() / 4 * 3 || to.size() % header.typesize != 0) {
      decode(from, to, account);
      return;
    }
    begin /= header.typesize;
    end = (end + header.typesize - 1) / header.typesize;
    const Charge scratch = account.charge(
        std::max(range_scratch(to.size()), range_temporaries(header.block, header.typesize) + decode_extra()));
    const int length = blosc_getitem(from.data(), static_cast<int>(begin), static_cast<int>(end - begin),
                                     to.data() + begin * header.typesize);
    if (length < 0 || static_cast<std::size_t>(length) != (end - begin) * header.typesize) {
      throw_corrupt("blosc", "cannot be decompressed in part (code " + std::to_string(length) + ")");
    }
  }

 private:
  struct Header {
    std::size_t decoded = 0, typesize = 1, block = 1;  // bytes
  };
  // A truncated or forged header makes Blosc read and write out of bounds: sizes are checked before it is called.
  static Header checked(std::span<const std::byte> from, std::size_t room) {
    std::size_t decoded = 0;
    if (blosc_cbuffer_validate(from.data(), from.size(), &decoded) != 0) {
      throw_corrupt("blosc", "of " + std::to_string(from.size()) + " bytes has a header that does not fit it");
    }
    if (decoded > room) {
      throw_corrupt("blosc",
                    "says that it holds " + std::to_string(decoded) + " bytes: expected " + std::to_string(room));
    }
    if (decoded == 0) return {};
    const std::size_t typesize = std::to_integer<std::size_t>(from[3]);
    const std::size_t block = little_endian_32(from.data() + 8);
    if (block == 0 || block > decoded || typesize == 0) {
      throw_corrupt("blosc", "has blocks of " + std::to_string(block) + " bytes and items of " +
                                 std::to_string(typesize) + ": impossible for " + std::to_string(decoded) + " bytes");
    }
    return {decoded, typesize, block};
  }
  static std::size_t temporaries(std::size_t block, std::size_t typesize) {
    return 2 * block + 4 * std::min<std::size_t>(typesize, 255) + 64;
  }
  static std::size_t range_temporaries(std::size_t block, std::size_t typesize) {
    return temporaries(block, typesize) + block;
  }
  std::size_t largest_block(std::size_t decoded) const {
    return std::min(decoded, std::max(kLargestAutoBlock, std::max(block_, kSmallestForcedBlock)));
  }
  std::size_t encode_extra(std::size_t block) const {
    if (std::strcmp(compressor_->name, "zstd") != 0) return compressor_->encode_extra;
    const int level = level_ < 9 ? std::max(1, 2 * level_ - 1) : ZSTD_maxCLevel();
    return ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level, block, 0)) + 4096;
  }
  std::size_t decode_extra() const {
    if (std::strcmp(compressor_->name, "zstd") != 0) return compressor_->decode_extra;
    return ZSTD_estimateDCtxSize() + 4096;
  }

  const BloscCompressor* compressor_ = nullptr;
  int level_ = 5;
  int shuffle_ = BLOSC_SHUFFLE;
  std::size_t typesize_ = 1;
  std::size_t block_ = 0;  // 0: Blosc chooses
};

}  // namespace

StagePtr make_blosc(CodecConfig& config, DType dtype) { return std::make_unique<Blosc>(config, dtype); }

}  // namespace cuboid
