// gzip and zlib by libdeflate (2.7 times zlib's speed of decoding). Its contexts are of fixed sizes, measured by
// counting malloc (libdeflate 1.14); tests/storage holds the numbers.
#include <libdeflate.h>

#include <algorithm>

#include "storage/codec_stage.h"

namespace cuboid {
namespace {

constexpr std::size_t kDecompressorBytes = 16 << 10;

std::size_t compressor_bytes(int level) {
  return level == 0 ? std::size_t{16} << 10 : level == 1 ? std::size_t{224} << 10 : std::size_t{672} << 10;
}

struct FreeCompressor {
  void operator()(libdeflate_compressor* compressor) const { libdeflate_free_compressor(compressor); }
};
struct FreeDecompressor {
  void operator()(libdeflate_decompressor* decompressor) const { libdeflate_free_decompressor(decompressor); }
};
using CompressorPtr = std::unique_ptr<libdeflate_compressor, FreeCompressor>;
using DecompressorPtr = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

[[noreturn]] void throw_no_memory() {
  throw Error(ErrorKind::over_budget, "the system refused libdeflate the memory that it needs: free some");
}

class Deflate final : public CodecStage {
 public:
  enum class Container { gzip, zlib };

  Deflate(CodecConfig& config, Container container)
      : container_(container), level_(static_cast<int>(config.integer("level", 0, 9, 1))) {}

  // As libdeflate's and zlib's own bounds, with room for a writer that stores in smaller blocks.
  std::size_t bound(std::size_t decoded) const override {
    const std::size_t own = container_ == Container::gzip ? libdeflate_gzip_compress_bound(nullptr, decoded)
                                                          : libdeflate_zlib_compress_bound(nullptr, decoded);
    return std::max(own, decoded + decoded / 1024 + 64);
  }
  std::size_t encode_scratch(std::size_t) const override { return compressor_bytes(level_); }
  std::size_t decode_scratch(std::size_t) const override { return kDecompressorBytes; }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Charge scratch = account.charge(encode_scratch(from.size()));
    const CompressorPtr compressor(libdeflate_alloc_compressor(level_));
    if (!compressor) throw_no_memory();
    const std::size_t length =
        container_ == Container::gzip
            ? libdeflate_gzip_compress(compressor.get(), from.data(), from.size(), to.data(), to.size())
            : libdeflate_zlib_compress(compressor.get(), from.data(), from.size(), to.data(), to.size());
    if (length == 0) throw Error(ErrorKind::io, std::string(name()) + " could not compress a chunk: it does not fit");
    return length;
  }

  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Charge scratch = account.charge(kDecompressorBytes);
    const DecompressorPtr decompressor(libdeflate_alloc_decompressor());
    if (!decompressor) throw_no_memory();
    // A gzip file may have several members, one after another.
    std::size_t consumed = 0, length = 0;
    do {
      std::size_t in = 0, out = 0;
      const std::byte* source = from.data() + consumed;
      const std::size_t source_bytes = from.size() - consumed;
      std::byte* target = to.data() + length;
      const std::size_t room = to.size() - length;
      const libdeflate_result code =
          container_ == Container::gzip
              ? libdeflate_gzip_decompress_ex(decompressor.get(), source, source_bytes, target, room, &in, &out)
              : libdeflate_zlib_decompress_ex(decompressor.get(), source, source_bytes, target, room, &in, &out);
      if (code == LIBDEFLATE_INSUFFICIENT_SPACE) {
        throw_corrupt(name(), "holds more than the " + std::to_string(to.size()) + " bytes that were expected");
      }
      if (code != LIBDEFLATE_SUCCESS) throw_corrupt(name(), "cannot be decompressed, or its checksum differs");
      consumed += in, length += out;
    } while (container_ == Container::gzip && consumed < from.size());
    if (consumed != from.size()) {
      throw_corrupt(name(), "is followed by " + std::to_string(from.size() - consumed) + " bytes of something else");
    }
    return length;
  }

 private:
  const char* name() const { return container_ == Container::gzip ? "gzip" : "zlib"; }

  Container container_;
  int level_;
};

}  // namespace

StagePtr make_gzip(CodecConfig& config, DType) { return std::make_unique<Deflate>(config, Deflate::Container::gzip); }
StagePtr make_zlib(CodecConfig& config, DType) { return std::make_unique<Deflate>(config, Deflate::Container::zlib); }

}  // namespace cuboid
