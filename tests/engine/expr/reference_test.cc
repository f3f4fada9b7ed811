// Every built-in function against NumPy: whole, block by block, and in several memory layouts. The cases are written by
// reference.py when the tests are built.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/expr/kernel.h"
#include "evaluate.h"
#include "storage/error.h"

namespace cuboid {
namespace {

using nlohmann::json;

struct Reference {
  json cases;
  std::vector<char> bytes;
  Reference() {
    std::ifstream text(CUBOID_REFERENCE ".json"), binary(CUBOID_REFERENCE ".bin", std::ios::binary);
    const json all = json::parse(text);
    cases = all.at("cases");
    bytes.assign(std::istreambuf_iterator<char>(binary), {});
    std::cout << cases.size() << " cases, seed " << all.at("seed") << ", NumPy " << all.at("numpy") << "\n";
  }
};
const Reference& reference() {
  static const Reference loaded;
  return loaded;
}

ParamValue param_of(const json& value) {
  if (value.is_null()) return std::monostate{};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  bool whole = true;
  for (const json& item : value) whole = whole && item.is_number_integer();
  if (whole) return value.get<std::vector<std::int64_t>>();
  return value.get<std::vector<double>>();
}

Scalar scalar_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.get<double>();
}

struct Call {
  KernelSpec spec;
  std::vector<ConstView> inputs;
};

Call call_of(const json& entry) {
  Call call;
  call.spec.function = entry.at("function");
  for (const auto& [name, value] : entry.at("params").items()) call.spec.params[name] = param_of(value);
  for (const json& arg : entry.at("args")) {
    if (arg.contains("scalar")) {
      call.spec.args.push_back(scalar_of(arg.at("scalar")));
      continue;
    }
    const json& array = arg.at("array");
    ConstView view;
    view.dtype = dtype_from_name(array.at("dtype").get<std::string>()).value();
    view.shape = array.at("shape").get<Shape>();
    view.strides = array.at("strides").get<Shape>();
    for (std::int64_t& stride : view.strides) stride *= view.dtype.size;
    view.data = reinterpret_cast<const std::byte*>(reference().bytes.data()) + array.at("at").get<std::size_t>() +
                array.at("offset").get<std::size_t>() * view.dtype.size;
    call.spec.args.emplace_back(ArraySpec(view.dtype, view.shape));
    call.inputs.push_back(view);
  }
  return call;
}

TestArray expected_of(const json& entry) {
  const json& expected = entry.at("expected");
  TestArray array(dtype_from_name(expected.at("dtype").get<std::string>()).value(), expected.at("shape").get<Shape>());
  if (!array.bytes.empty())
    std::memcpy(array.bytes.data(), reference().bytes.data() + expected.at("at").get<std::size_t>(),
                array.bytes.size());
  return array;
}

// Within `ulps` roundings of the larger of the number and `scale`. Any NaN equals any other; 0 equals -0 unless the
// result must be exact.
template <class T>
bool same_float(T a, T b, double ulps, double scale) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return ulps > 0 || std::signbit(a) == std::signbit(b) || a != 0;
  if (std::isinf(a) || std::isinf(b)) return false;
  const double unit = std::numeric_limits<T>::epsilon() * std::max(std::abs(static_cast<double>(b)), scale);
  return std::abs(static_cast<double>(a) - static_cast<double>(b)) <=
         std::max(ulps * unit, ulps * static_cast<double>(std::numeric_limits<T>::denorm_min()));
}

template <class T>
bool same_as_float(const std::byte* a, const std::byte* b, double ulps, double scale) {
  T x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return same_float(x, y, ulps, scale);
}
template <class T>
bool same_as_complex(const std::byte* a, const std::byte* b, double ulps, double scale) {
  std::complex<T> x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const double size =
      ulps > 0 && std::isfinite(y.real()) && std::isfinite(y.imag()) ? std::max<double>(std::abs(y), scale) : 0;
  return same_float(x.real(), y.real(), ulps, size) && same_float(x.imag(), y.imag(), ulps, size);
}

bool same_element(DType dtype, const std::byte* a, const std::byte* b, double ulps, double scale) {
  if (dtype == kFloat32) return same_as_float<float>(a, b, ulps, scale);
  if (dtype == kFloat64) return same_as_float<double>(a, b, ulps, scale);
  if (dtype == kComplex64) return same_as_complex<float>(a, b, ulps, scale);
  if (dtype == kComplex128) return same_as_complex<double>(a, b, ulps, scale);
  return std::memcmp(a, b, dtype.size) == 0;
}

std::string element_text(DType dtype, const std::byte* at) {
  std::ostringstream text;
  text.precision(17);
  const auto print = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    text << +value;
  };
  if (dtype == kFloat32)
    print(float{});
  else if (dtype == kFloat64)
    print(double{});
  else if (dtype == kComplex64)
    print(std::complex<float>{});
  else if (dtype == kComplex128)
    print(std::complex<double>{});
  else
    for (std::size_t k = dtype.size; k-- > 0;) text << std::hex << static_cast<int>(at[k]) << ' ';
  return text.str();
}

// "" where equal, else the first difference.
std::string difference(const TestArray& actual, const TestArray& expected, double ulps, double scale) {
  if (actual.dtype != expected.dtype)
    return "type " + to_string(actual.dtype) + ", NumPy has " + to_string(expected.dtype);
  if (actual.shape != expected.shape)
    return "shape " + to_string(actual.shape) + ", NumPy has " + to_string(expected.shape);
  const std::size_t size = actual.dtype.size;
  for (std::size_t at = 0; at < expected.bytes.size(); at += size)
    if (!same_element(actual.dtype, &actual.bytes[at], &expected.bytes[at], ulps, scale))
      return "element " + std::to_string(at / size) + " is " + element_text(actual.dtype, &actual.bytes[at]) +
             ", NumPy has " + element_text(actual.dtype, &expected.bytes[at]);
  return "";
}

std::string check(const json& entry) {
  const Call call = call_of(entry);
  const double ulps = entry.at("ulps"), scale = entry.at("scale");
  const bool refused = !entry.contains("expected");
  std::shared_ptr<const Kernel> kernel;
  try {
    kernel = builtin_kernels().resolve(call.spec);
    if (kernel == nullptr) return "no such function";
    kernel->check_extents();
    if (refused && !entry.value("raises", false)) return "was not refused";
    const std::size_t output = entry.value("output", std::size_t{0});
    const TestArray whole = evaluate(*kernel, call.inputs, output);
    if (refused) return "did not raise";
    const TestArray expected = expected_of(entry);
    if (std::string text = difference(whole, expected, ulps, scale); !text.empty()) return text;
    for (std::int64_t divisor : {2, 3}) {
      for (Merging merging : {Merging::one_by_one, Merging::two_halves}) {
        const TestArray blocks = evaluate_in_parts(*kernel, call.inputs, divisor, merging, output);
        if (std::string text = difference(blocks, expected, ulps, scale); !text.empty())
          return "in blocks of 1/" + std::to_string(divisor) + ": " + text;
        if (!(evaluate_in_parts(*kernel, call.inputs, divisor, merging, output) == blocks))
          return "differs from run to run";
        if (!reduces(*kernel)) break;
      }
    }
  } catch (const Error& error) {
    if (!refused) return std::string("unexpected error: ") + error.what();
    if (error.kind() != ErrorKind::invalid) return std::string("error of the wrong kind: ") + error.what();
  } catch (const std::logic_error& error) {
    return std::string("broken promise: ") + error.what();
  }
  return "";
}

TEST(Reference, EveryCallGivesNumPysResult) {
  ASSERT_GT(reference().cases.size(), 3000u);
  std::size_t wrong = 0;
  for (const json& entry : reference().cases) {
    const std::string text = check(entry);
    if (text.empty()) continue;
    if (++wrong <= 40) ADD_FAILURE() << entry.at("label").get<std::string>() << ": " << text;
  }
  EXPECT_EQ(wrong, 0u);
}

// The same elements in another memory layout give the same bits, however they are folded.
TEST(Reference, LayoutDoesNotChangeABit) {
  std::size_t compared = 0;
  for (const json& entry : reference().cases) {
    if (!entry.contains("expected")) continue;
    const Call call = call_of(entry);
    const auto kernel = builtin_kernels().resolve(call.spec);
    std::vector<TestArray> copies;
    for (const ConstView& input : call.inputs) {
      copies.emplace_back(input.dtype, input.shape);
      copy_elements(input, copies.back().view());
    }
    std::vector<ConstView> inputs;
    for (const TestArray& copy : copies) inputs.push_back(copy.view());
    const std::size_t output = entry.value("output", std::size_t{0});
    const TestArray there = evaluate(*kernel, call.inputs, output), here = evaluate(*kernel, inputs, output);
    ++compared;
    ASSERT_EQ(there, here) << entry.at("label");
  }
  EXPECT_GT(compared, 3000u);
}

// What the list of functions promises: every one is computed by at least one case.
TEST(Reference, CoversEveryFunction) {
  std::map<std::string, int> seen;
  for (const json& entry : reference().cases)
    if (entry.contains("expected")) ++seen[entry.at("function").get<std::string>()];
  for (const FunctionDoc& doc : builtin_kernels().functions()) EXPECT_GT(seen[doc.name], 0) << doc.name;
}

}  // namespace
}  // namespace cuboid
