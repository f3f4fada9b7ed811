// Compressors that a chain may name by themselves: zstd, lz4, bz2, lzma. Where the library takes a workspace from its
// caller it is a pooled buffer; elsewhere its own allocations are charged by its documented or measured size.
#include <bzlib.h>
#include <lz4.h>
#include <lzma.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "storage/codec_stage.h"

namespace cuboid {
namespace {

[[noreturn]] void throw_encode_failed(const char* codec, const std::string& why) {
  throw Error(ErrorKind::io, std::string(codec) + " could not compress a chunk: " + why);
}

class Zstd final : public CodecStage {
 public:
  explicit Zstd(CodecConfig& config)
      : level_(static_cast<int>(config.integer("level", ZSTD_minCLevel(), ZSTD_maxCLevel(), 0))),
        checksum_(config.boolean("checksum", false)) {}

  std::size_t bound(std::size_t decoded) const override { return ZSTD_compressBound(decoded) + 4; }
  std::size_t encode_scratch(std::size_t decoded) const override { return class_bytes(workspace_bytes(decoded)); }
  std::size_t decode_scratch(std::size_t) const override { return ZSTD_estimateDCtxSize(); }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Buffer workspace = account.acquire(workspace_bytes(from.size()));
    ZSTD_CCtx* context = ZSTD_initStaticCCtx(workspace.data(), workspace.size());
    if (!context) throw_encode_failed("zstd", "its workspace is too small");
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level_);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum_ ? 1 : 0);
    // Off in a static context unless asked for; numcodecs before 0.16 reads no frame without it.
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 1);
    const std::size_t length = ZSTD_compress2(context, to.data(), to.size(), from.data(), from.size());
    if (ZSTD_isError(length)) throw_encode_failed("zstd", ZSTD_getErrorName(length));
    return length;
  }

  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Charge scratch = account.charge(ZSTD_estimateDCtxSize());
    const std::size_t length = ZSTD_decompressDCtx(decoder(), to.data(), to.size(), from.data(), from.size());
    if (ZSTD_isError(length))
      throw_corrupt("zstd", std::string("cannot be decompressed: ") + ZSTD_getErrorName(length));
    return length;
  }

 private:
  // One a thread, 96 kB: making one asks the processor what it can do, which a virtual machine answers in 5 us. Static:
  // frames of zstd's first years, whose decoders take memory by themselves, are refused.
  static ZSTD_DCtx* decoder() {
    thread_local const std::unique_ptr<std::byte[]> workspace(new std::byte[ZSTD_estimateDCtxSize()]);
    thread_local ZSTD_DCtx* const context = ZSTD_initStaticDCtx(workspace.get(), ZSTD_estimateDCtxSize());
    return context;
  }
  std::size_t workspace_bytes(std::size_t decoded) const {
    return ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level_, std::max<std::size_t>(decoded, 1), 0));
  }

  int level_;
  bool checksum_;
};

// As numcodecs writes it: the decoded size in four little-endian bytes, then one LZ4 block.
class Lz4 final : public CodecStage {
 public:
  explicit Lz4(CodecConfig& config)
      : acceleration_(static_cast<int>(config.integer("acceleration", 1, INT32_MAX, 1))) {}

  std::size_t bound(std::size_t decoded) const override { return decoded + decoded / 255 + 16 + kHeader; }
  std::size_t limit() const override { return LZ4_MAX_INPUT_SIZE; }
  std::size_t encode_scratch(std::size_t) const override {
    return class_bytes(static_cast<std::size_t>(LZ4_sizeofState()));
  }
  std::size_t decode_scratch(std::size_t) const override { return 0; }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Buffer state = account.acquire(static_cast<std::size_t>(LZ4_sizeofState()));
    for (std::size_t i = 0; i < kHeader; ++i) to[i] = static_cast<std::byte>(from.size() >> (8 * i));
    const std::size_t room = std::min(bound(from.size()), to.size()) - kHeader;
    const int length = LZ4_compress_fast_extState(state.data(), reinterpret_cast<const char*>(from.data()),
                                                  reinterpret_cast<char*>(to.data() + kHeader),
                                                  static_cast<int>(from.size()), static_cast<int>(room), acceleration_);
    if (length <= 0) throw_encode_failed("lz4", "it does not fit");
    return kHeader + static_cast<std::size_t>(length);
  }

  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    if (from.size() < kHeader || from.size() > INT32_MAX) {
      throw_corrupt("lz4", "has " + std::to_string(from.size()) + " bytes");
    }
    std::size_t decoded = 0;
    for (std::size_t i = kHeader; i-- > 0;) decoded = decoded << 8 | std::to_integer<std::size_t>(from[i]);
    if (decoded > to.size() || decoded > LZ4_MAX_INPUT_SIZE) {
      throw_corrupt("lz4",
                    "says that it holds " + std::to_string(decoded) + " bytes: expected " + std::to_string(to.size()));
    }
    const int length =
        LZ4_decompress_safe(reinterpret_cast<const char*>(from.data() + kHeader), reinterpret_cast<char*>(to.data()),
                            static_cast<int>(from.size() - kHeader), static_cast<int>(decoded));
    if (length < 0 || static_cast<std::size_t>(length) != decoded) throw_corrupt("lz4", "cannot be decompressed");
    return decoded;
  }

 private:
  static constexpr std::size_t kHeader = 4;
  int acceleration_;
};

class Bz2 final : public CodecStage {
 public:
  explicit Bz2(CodecConfig& config) : level_(static_cast<std::size_t>(config.integer("level", 1, 9, 1))) {}

  std::size_t bound(std::size_t decoded) const override { return decoded + decoded / 100 + 600; }
  std::size_t limit() const override { return UINT32_MAX / 2; }
  // "400k + (8 x block size)" and "100k + (4 x block size)", bzip2 manual 1.0.8, section 2; any block may be met when
  // decoding, whatever the metadata says, but what is in nobody's power to know is charged only when it is met.
  std::size_t encode_scratch(std::size_t) const override { return 400'000 + 800'000 * level_; }
  std::size_t decode_scratch(std::size_t) const override { return 100'000 + 400'000 * level_; }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Charge scratch = account.charge(encode_scratch(from.size()));
    auto length = static_cast<unsigned>(std::min(to.size(), bound(from.size())));
    const int code = BZ2_bzBuffToBuffCompress(chars(to), &length, chars(from), static_cast<unsigned>(from.size()),
                                              static_cast<int>(level_), 0, 0);
    if (code != BZ_OK) throw_encode_failed("bz2", "code " + std::to_string(code));
    return length;
  }

  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    if (from.size() < 4 || from.size() > UINT32_MAX || to.size() > UINT32_MAX) {
      throw_corrupt("bz2", "has " + std::to_string(from.size()) + " bytes");
    }
    const std::size_t stated = std::clamp<std::size_t>(std::to_integer<std::size_t>(from[3]) - '0', 1, 9);
    const Charge scratch = account.charge(100'000 + 400'000 * std::max(level_, stated));
    auto length = static_cast<unsigned>(to.size());
    const int code =
        BZ2_bzBuffToBuffDecompress(chars(to), &length, chars(from), static_cast<unsigned>(from.size()), 0, 0);
    if (code != BZ_OK) throw_corrupt("bz2", "cannot be decompressed (code " + std::to_string(code) + ")");
    return length;
  }

 private:
  static char* chars(std::span<std::byte> bytes) { return reinterpret_cast<char*>(bytes.data()); }
  static char* chars(std::span<const std::byte> bytes) {  // the library's interface lacks const; it does not write
    return const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  }

  std::size_t level_;
};

// The .xz container, as numcodecs and Python's lzma write by default.
class Lzma final : public CodecStage {
 public:
  explicit Lzma(CodecConfig& config) {
    const std::int64_t format = config.integer("format", 0, 3, 1);
    const std::int64_t check = config.integer("check", -1, 10, -1);
    if (format != 1)
      config.fail("'format' " + std::to_string(format) + ": only 1 (xz) is read", ErrorKind::unsupported);
    if (config.value("filters")) config.fail("custom 'filters' are not read", ErrorKind::unsupported);
    preset_ = static_cast<std::uint32_t>(config.integer("preset", 0, 9, 6));
    check_ = check < 0 ? LZMA_CHECK_CRC64 : static_cast<lzma_check>(check);
  }

  std::size_t bound(std::size_t decoded) const override { return lzma_stream_buffer_bound(decoded); }
  std::size_t encode_scratch(std::size_t) const override { return lzma_easy_encoder_memusage(preset_); }
  std::size_t decode_scratch(std::size_t) const override { return lzma_easy_decoder_memusage(preset_); }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const Charge scratch = account.charge(encode_scratch(from.size()));
    std::size_t length = 0;
    const lzma_ret code = lzma_easy_buffer_encode(preset_, check_, nullptr, octets(from.data()), from.size(),
                                                  reinterpret_cast<std::uint8_t*>(to.data()), &length, to.size());
    if (code != LZMA_OK) throw_encode_failed("lzma", "code " + std::to_string(code));
    return length;
  }

  // The stream states what its decoder needs; the library refuses to take more than it is allowed and says how much
  // that would be, so the charge is raised (or refused) before anything is allocated.
  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    const std::uint64_t stated = decode_scratch(to.size());
    const Charge scratch = account.charge(stated);
    Charge more;
    for (std::uint64_t allowed = stated;;) {
      std::size_t consumed = 0, length = 0;
      std::uint64_t limit = allowed;
      const lzma_ret code = lzma_stream_buffer_decode(&limit, 0, nullptr, octets(from.data()), &consumed, from.size(),
                                                      reinterpret_cast<std::uint8_t*>(to.data()), &length, to.size());
      if (code == LZMA_OK && consumed == from.size()) return length;
      if (code == LZMA_MEMLIMIT_ERROR && limit > allowed) {
        allowed = limit;
        more.release();
        more = account.charge(allowed - stated);
        continue;
      }
      throw_corrupt("lzma", "cannot be decompressed (code " + std::to_string(code) + ")");
    }
  }

 private:
  static const std::uint8_t* octets(const std::byte* bytes) { return reinterpret_cast<const std::uint8_t*>(bytes); }

  std::uint32_t preset_ = 6;
  lzma_check check_ = LZMA_CHECK_CRC64;
};

}  // namespace

StagePtr make_zstd(CodecConfig& config, DType) { return std::make_unique<Zstd>(config); }
StagePtr make_lz4(CodecConfig& config, DType) { return std::make_unique<Lz4>(config); }
StagePtr make_bz2(CodecConfig& config, DType) { return std::make_unique<Bz2>(config); }
StagePtr make_lzma(CodecConfig& config, DType) { return std::make_unique<Lzma>(config); }

}  // namespace cuboid
