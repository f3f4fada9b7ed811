// The packbits codec of Zarr 3 (zarr-extensions, codecs/packbits): of each number the bits from first_bit to last_bit, the
// lowest first, one number's behind another's; of a boolean its only bit. In numcodecs.packbits, which is for
// booleans alone, the first one is highest: see codec_filters.cc.
#include <algorithm>
#include <bit>
#include <cstring>

#include "storage/codec_stage.h"

namespace cuboid {
namespace {

class BitPacking final : public CodecStage {
 public:
  enum class Padding { none, first_byte, last_byte };
  struct Bits {
    std::size_t number;  // bytes of one number in memory
    unsigned first, count;
    unsigned of;     // all that a number has
    bool is_signed;  // then the highest bit that is kept is repeated above it
  };

  BitPacking(Bits bits, Padding padding) : bits_(bits), padding_(padding) {}

  // Bits that are left out are lost.
  bool read_only() const override { return bits_.count < bits_.of; }
  std::size_t bound(std::size_t decoded) const override { return packed(decoded) + (padding_ != Padding::none); }
  std::size_t encode_scratch(std::size_t) const override { return 0; }
  std::size_t decode_scratch(std::size_t) const override { return 0; }

  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    if (read_only())
      throw Error(ErrorKind::unsupported,
                  "codec 'packbits' that leaves bits out is read only: choose other codecs to write with");
    const std::size_t length = bound(from.size()), numbers = from.size() / bits_.number;
    std::byte* out = to.data() + (padding_ == Padding::first_byte);
    std::uint64_t held = 0;
    unsigned holds = 0;
    const auto add = [&](std::uint64_t value, unsigned count) {  // at most 32 bits
      held |= value << holds;
      for (holds += count; holds >= 8; holds -= 8, held >>= 8) *out++ = static_cast<std::byte>(held);
    };
    for (std::size_t i = 0; i < numbers; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, from.data() + i * bits_.number, bits_.number);
      if (bits_.of == 1) value = value != 0;
      add(value & 0xffffffff, std::min(bits_.count, 32u));
      if (bits_.count > 32) add(value >> 32, bits_.count - 32);
    }
    if (holds > 0) *out = static_cast<std::byte>(held);
    if (padding_ == Padding::first_byte) to[0] = padding_bits(from.size());
    if (padding_ == Padding::last_byte) to[length - 1] = padding_bits(from.size());
    return length;
  }

  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    // zarrs 0.23 leaves out the byte that counts the padding where a number has whole bytes and so there never is any.
    const bool counted =
        padding_ != Padding::none && !(bits_.count == bits_.of && bits_.of > 1 && from.size() == packed(to.size()));
    if (from.size() != packed(to.size()) + counted)
      throw_corrupt("packbits",
                    "has " + std::to_string(from.size()) + " bytes: expected " + std::to_string(bound(to.size())));
    if (counted) {
      const bool leads = padding_ == Padding::first_byte;
      const std::byte said = leads ? from.front() : from.back();
      if (said != padding_bits(to.size()))
        throw_corrupt("packbits", "says that " + std::to_string(std::to_integer<unsigned>(said)) +
                                      " bits are padding: expected " +
                                      std::to_string(std::to_integer<unsigned>(padding_bits(to.size()))));
      from = from.subspan(leads ? 1 : 0, from.size() - 1);
    }
    std::size_t at = 0;
    std::uint64_t held = 0;
    unsigned holds = 0;
    const auto take = [&](unsigned count) {  // at most 32 bits
      for (; holds < count; holds += 8) held |= std::to_integer<std::uint64_t>(from[at++]) << holds;
      const std::uint64_t value = held & ((std::uint64_t{1} << count) - 1);
      held >>= count, holds -= count;
      return value;
    };
    for (std::size_t i = 0; i < to.size() / bits_.number; ++i) {
      std::uint64_t value = take(std::min(bits_.count, 32u));
      if (bits_.count > 32) value |= take(bits_.count - 32) << 32;
      value <<= bits_.first;
      const unsigned above = bits_.first + bits_.count;
      if (bits_.is_signed && above < 64 && (value >> (above - 1) & 1) != 0) value |= ~std::uint64_t{0} << above;
      std::memcpy(to.data() + i * bits_.number, &value, bits_.number);
    }
    return to.size();
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  std::size_t packed(std::size_t decoded) const { return (decoded / bits_.number * bits_.count + 7) / 8; }
  std::byte padding_bits(std::size_t decoded) const {
    return static_cast<std::byte>(8 * packed(decoded) - decoded / bits_.number * bits_.count);
  }

  Bits bits_;
  Padding padding_;
};

}  // namespace

StagePtr make_packbits(CodecConfig& config, DType dtype) {
  using Padding = BitPacking::Padding;
  if (dtype.opaque) config.fail("is for numbers and booleans and is given " + to_string(dtype));
  const std::string padding = config.text("padding_encoding", "none");
  if (padding != "none" && padding != "first_byte" && padding != "last_byte")
    config.fail("'padding_encoding' is '" + padding + "': expected none, first_byte or last_byte");
  const std::size_t number = dtype.kind == Kind::complex_float ? dtype.size / 2 : dtype.size;
  const unsigned of = dtype.kind == Kind::boolean ? 1 : 8 * static_cast<unsigned>(number);
  const std::int64_t first = config.integer("first_bit", 0, of - 1, 0);
  const std::int64_t last = config.integer("last_bit", first, of - 1, of - 1);
  return std::make_unique<BitPacking>(
      BitPacking::Bits{number, static_cast<unsigned>(first), static_cast<unsigned>(last - first + 1), of,
                       dtype.kind == Kind::signed_int},
      padding == "none"         ? Padding::none
      : padding == "first_byte" ? Padding::first_byte
                                : Padding::last_byte);
}

}  // namespace cuboid
