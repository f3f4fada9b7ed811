// The filters of numcodecs that Zarr 2 arrays use: delta, fixedscaleoffset, astype, quantize, bitround,
// packbits, shuffle. Each turns its encoded numbers back as numcodecs 0.16 does. Those that lose nothing also write.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "storage/codec_stage.h"
#include "storage/zarr_dtype.h"

namespace cuboid {
namespace {

// Calls `body` with a value of the C++ type of a real number.
template <class Body>
void with_type(DType dtype, Body body) {
  const bool is_signed = dtype.kind == Kind::signed_int;
  if (dtype.kind == Kind::floating) return dtype.size == 4 ? body(float{}) : body(double{});
  switch (dtype.size) {
    case 1:
      return is_signed ? body(std::int8_t{}) : body(std::uint8_t{});
    case 2:
      return is_signed ? body(std::int16_t{}) : body(std::uint16_t{});
    case 4:
      return is_signed ? body(std::int32_t{}) : body(std::uint32_t{});
    default:
      return is_signed ? body(std::int64_t{}) : body(std::uint64_t{});
  }
}

template <class Value>
Value load(const std::byte* from, std::size_t i) {
  Value value;
  std::memcpy(&value, from + i * sizeof value, sizeof value);
  return value;
}
template <class Value>
void store(std::byte* to, std::size_t i, Value value) {
  std::memcpy(to + i * sizeof value, &value, sizeof value);
}

// C's conversion, with the values that it leaves undefined made 0 (NaN) or the nearest limit.
template <class To, class From>
To converted(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return 0;
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(value);
}

// What numbers of one type become in another; the count stays.
class NumberFilter : public CodecStage {
 public:
  NumberFilter(std::string name, DType decoded, DType encoded)
      : name_(std::move(name)), decoded_(decoded), encoded_(encoded) {}

  std::size_t bound(std::size_t decoded) const override { return decoded / decoded_.size * encoded_.size; }
  std::size_t encode_scratch(std::size_t) const override { return 0; }
  std::size_t decode_scratch(std::size_t) const override { return 0; }
  bool read_only() const override { return true; }
  std::size_t encode(std::span<const std::byte>, std::span<std::byte>, MemoryAccount&) const override {
    throw Error(ErrorKind::unsupported, "codec '" + name_ + "' is read only: choose other codecs to write with");
  }
  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    const std::size_t count = from.size() / encoded_.size;
    if (from.size() % encoded_.size != 0 || count * decoded_.size > to.size()) {
      throw_corrupt(name_, "has " + std::to_string(from.size()) + " bytes: expected " +
                               std::to_string(to.size() / decoded_.size * encoded_.size));
    }
    undo(from.data(), to.data(), count);
    return count * decoded_.size;
  }

 protected:
  virtual void undo(const std::byte* from, std::byte* to, std::size_t count) const = 0;

  std::string name_;
  DType decoded_, encoded_;
};

// astype, quantize: a conversion; bitround: none.
class Conversion final : public NumberFilter {
 public:
  using NumberFilter::NumberFilter;

 private:
  void undo(const std::byte* from, std::byte* to, std::size_t count) const override {
    if (decoded_ == encoded_) {
      std::memcpy(to, from, count * decoded_.size);
      return;
    }
    with_type(encoded_, [&](auto in) {
      with_type(decoded_, [&](auto out) {
        for (std::size_t i = 0; i < count; ++i) store(to, i, converted<decltype(out)>(load<decltype(in)>(from, i)));
      });
    });
  }
};

// Each number is stored as its difference from the one before; integers wrap around, so that within one integer type
// nothing is lost. Differences of floats are rounded, and narrower types may not hold them: these are read only.
class Delta final : public NumberFilter {
 public:
  using NumberFilter::NumberFilter;
  bool read_only() const override { return decoded_ != encoded_ || decoded_.kind == Kind::floating; }
  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount& account) const override {
    if (read_only()) return NumberFilter::encode(from, to, account);
    with_type(decoded_, [&](auto type) {
      using Value = decltype(type);
      if constexpr (std::is_integral_v<Value>) {
        using Unsigned = std::make_unsigned_t<Value>;
        Unsigned before = 0;
        for (std::size_t i = 0; i < from.size() / sizeof(Value); ++i) {
          const auto value = load<Unsigned>(from.data(), i);
          store(to.data(), i, static_cast<Unsigned>(value - before));
          before = value;
        }
      }
    });
    return from.size();
  }

 private:
  void undo(const std::byte* from, std::byte* to, std::size_t count) const override {
    with_type(encoded_, [&](auto in) {
      with_type(decoded_, [&](auto out) {
        using Out = decltype(out);
        using Sum =
            typename std::conditional_t<std::is_integral_v<Out>,
                                        std::make_unsigned<std::conditional_t<std::is_integral_v<Out>, Out, int>>,
                                        std::type_identity<Out>>::type;
        Sum sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
          sum = static_cast<Sum>(sum + static_cast<Sum>(converted<Out>(load<decltype(in)>(from, i))));
          store(to, i, static_cast<Out>(sum));
        }
      });
    });
  }
};

// stored / scale + offset, in double precision (single where the stored numbers are single).
class FixedScaleOffset final : public NumberFilter {
 public:
  FixedScaleOffset(std::string name, DType decoded, DType encoded, double scale, double offset)
      : NumberFilter(std::move(name), decoded, encoded), scale_(scale), offset_(offset) {}

 private:
  void undo(const std::byte* from, std::byte* to, std::size_t count) const override {
    with_type(encoded_, [&](auto in) {
      with_type(decoded_, [&](auto out) {
        using Real = std::conditional_t<std::is_same_v<decltype(in), float>, float, double>;
        const auto scale = static_cast<Real>(scale_), offset = static_cast<Real>(offset_);
        for (std::size_t i = 0; i < count; ++i) {
          store(to, i, converted<decltype(out)>(static_cast<Real>(load<decltype(in)>(from, i)) / scale + offset));
        }
      });
    });
  }

  double scale_, offset_;
};

// Eight booleans to a byte, the first one highest; a byte before them counts the bits that pad the last.
class PackBits final : public CodecStage {
 public:
  std::size_t bound(std::size_t decoded) const override { return 1 + (decoded + 7) / 8; }
  std::size_t encode_scratch(std::size_t) const override { return 0; }
  std::size_t decode_scratch(std::size_t) const override { return 0; }
  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    const std::size_t bytes = (from.size() + 7) / 8;
    to[0] = static_cast<std::byte>(8 * bytes - from.size());
    for (std::size_t b = 0; b < bytes; ++b) {
      unsigned packed = 0;
      for (std::size_t i = 8 * b; i < 8 * b + 8; ++i)
        packed = packed << 1 | (i < from.size() && from[i] != std::byte{0});
      to[1 + b] = static_cast<std::byte>(packed);
    }
    return 1 + bytes;
  }
  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    const std::size_t padding = from.empty() ? 8 : std::to_integer<std::size_t>(from[0]);
    if (padding > 7 || (from.size() == 1 && padding > 0) || 8 * (from.size() - 1) - padding > to.size()) {
      throw_corrupt("packbits",
                    "has " + std::to_string(from.size()) + " bytes: expected " + std::to_string(bound(to.size())));
    }
    const std::size_t count = 8 * (from.size() - 1) - padding;
    for (std::size_t i = 0; i < count; ++i) to[i] = (from[1 + i / 8] >> (7 - i % 8)) & std::byte{1};
    return count;
  }
};

// All first bytes of the elements, then all second ones, and so on.
class Shuffle final : public CodecStage {
 public:
  explicit Shuffle(std::size_t size) : size_(size) {}

  std::size_t bound(std::size_t decoded) const override { return decoded; }
  std::size_t encode_scratch(std::size_t) const override { return 0; }
  std::size_t decode_scratch(std::size_t) const override { return 0; }
  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    if (from.size() % size_ != 0) throw_not_whole(from.size(), ErrorKind::invalid);
    const std::size_t count = from.size() / size_;
    for (std::size_t b = 0; b < size_; ++b) {
      for (std::size_t i = 0; i < count; ++i) to[b * count + i] = from[i * size_ + b];
    }
    return from.size();
  }
  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override {
    if (from.size() % size_ != 0 || from.size() > to.size()) throw_not_whole(from.size(), ErrorKind::corrupt);
    const std::size_t count = from.size() / size_;
    for (std::size_t b = 0; b < size_; ++b) {
      for (std::size_t i = 0; i < count; ++i) to[i * size_ + b] = from[b * count + i];
    }
    return from.size();
  }

 private:
  [[noreturn]] void throw_not_whole(std::size_t bytes, ErrorKind kind) const {
    throw Error(kind,
                "shuffle of " + std::to_string(bytes) + " bytes: expected whole elements of " + std::to_string(size_));
  }

  std::size_t size_;
};

// --- From JSON ------------------------------------------------------------------------------------------------------

DType real_dtype(CodecConfig& config, const char* key, std::optional<DType> fallback) {
  const nlohmann::json* found = config.value(key);
  if (!found && fallback) return *fallback;
  if (!found) config.fail(std::string("'") + key + "' is missing: expected a data type such as \"<f4\"");
  const DType dtype = numpy_dtype(*found, key).dtype;
  if (dtype.kind == Kind::boolean || dtype.kind == Kind::complex_float || dtype.opaque || dtype == kFloat16) {
    config.fail(std::string("'") + key + "' is " + found->dump() + ": expected real numbers", ErrorKind::unsupported);
  }
  return dtype;
}

double number(CodecConfig& config, const char* key) {
  const nlohmann::json* found = config.value(key);
  if (!found || !found->is_number()) config.fail(std::string("'") + key + "' is missing or no number");
  return found->get<double>();
}

void expect_dtype(CodecConfig& config, DType stated, DType given) {
  if (stated != given) {
    config.fail("is for " + to_string(stated) + " and is given " + to_string(given));
  }
}

}  // namespace

bool is_filter(const std::string& name) {
  constexpr std::string_view kNames[] = {"delta", "fixedscaleoffset", "astype", "quantize", "bitround", "packbits"};
  return name.starts_with("numcodecs.") &&
         std::find(std::begin(kNames), std::end(kNames), std::string_view(name).substr(10)) != std::end(kNames);
}

std::pair<StagePtr, DType> make_filter(CodecConfig& config, DType decoded) {
  const std::string& name = config.codec();
  if (name == "numcodecs.packbits") {
    if (decoded.kind != Kind::boolean) config.fail("is for bool and is given " + to_string(decoded));
    return {std::make_unique<PackBits>(), kUint8};
  }
  if (name == "numcodecs.bitround") {
    config.integer("keepbits", 0, 64);
    return {std::make_unique<Conversion>(name, decoded, decoded), decoded};
  }
  const bool is_astype = name == "numcodecs.astype";
  const DType stated = real_dtype(config, is_astype ? "decode_dtype" : "dtype", std::nullopt);
  expect_dtype(config, stated, decoded);
  const DType encoded =
      is_astype ? real_dtype(config, "encode_dtype", std::nullopt) : real_dtype(config, "astype", decoded);
  if (name == "numcodecs.delta") return {std::make_unique<Delta>(name, decoded, encoded), encoded};
  if (name == "numcodecs.fixedscaleoffset") {
    const double scale = number(config, "scale"), offset = number(config, "offset");
    return {std::make_unique<FixedScaleOffset>(name, decoded, encoded, scale, offset), encoded};
  }
  if (name == "numcodecs.quantize") config.integer("digits", -400, 400);
  return {std::make_unique<Conversion>(name, decoded, encoded), encoded};
}

StagePtr make_shuffle(CodecConfig& config, DType) {
  return std::make_unique<Shuffle>(static_cast<std::size_t>(config.integer("elementsize", 1, 1 << 20, 4)));
}

}  // namespace cuboid
