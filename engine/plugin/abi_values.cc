#include "engine/plugin/abi_values.h"

#include <string>

namespace cuboid {
namespace {

constexpr char kKinds[] = {'b', 'i', 'u', 'f', 'c'};  // in the order of Kind

}  // namespace

cuboid_dtype abi_dtype(DType dtype) {
  return {static_cast<std::uint8_t>(kKinds[static_cast<std::size_t>(dtype.kind)]), 0,
          static_cast<std::uint16_t>(dtype.size)};
}

std::optional<DType> dtype_of(cuboid_dtype dtype) {
  for (const DType known : {kBool, kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64, kFloat32, kFloat64,
                            kComplex64, kComplex128}) {
    const cuboid_dtype code = abi_dtype(known);
    if (code.kind == dtype.kind && code.bytes == dtype.bytes) return known;
  }
  return std::nullopt;
}

AbiParams::AbiParams(const std::vector<ParamValue>& values) {
  values_.reserve(values.size());
  for (const ParamValue& value : values) {
    cuboid_value& to = values_.emplace_back();
    to.size = sizeof to;
    to.count = 1;
    if (const auto* b = std::get_if<bool>(&value)) to.kind = 'b', to.u.i = *b;
    if (const auto* i = std::get_if<std::int64_t>(&value)) to.kind = 'i', to.u.i = *i;
    if (const auto* f = std::get_if<double>(&value)) to.kind = 'f', to.u.f = *f;
    if (const auto* s = std::get_if<std::string>(&value)) to.kind = 's', to.count = s->size(), to.u.s = s->c_str();
    if (const auto* iv = std::get_if<std::vector<std::int64_t>>(&value))
      to.kind = 'I', to.count = iv->size(), to.u.iv = iv->data();
    if (const auto* fv = std::get_if<std::vector<double>>(&value))
      to.kind = 'F', to.count = fv->size(), to.u.fv = fv->data();
    if (const auto* sv = std::get_if<std::vector<std::string>>(&value)) {
      std::vector<const char*>& texts = texts_.emplace_back();
      for (const std::string& text : *sv) texts.push_back(text.c_str());
      to.kind = 'S', to.count = texts.size(), to.u.sv = texts.data();
    }
  }
  for (const cuboid_value& value : values_) pointers_.push_back(&value);
}

}  // namespace cuboid
