#include "cases.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace cuboid::plugin_tests {

using test_host::Array;

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

// "1.5" is a float, "3" an integer, anything else text.
test_host::Value parse_value(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) return {text.c_str()};
  if (text.find_first_of(".e") != std::string::npos) return {number};
  return {std::int64_t(number)};
}

double element(const Array& a, std::size_t i) {
  const unsigned char* at = a.bytes.data() + i * a.dtype.bytes;
  const auto as = [at](auto typed) {
    std::memcpy(&typed, at, sizeof typed);
    return double(typed);
  };
  switch (a.dtype.kind << 8 | a.dtype.bytes) {
    case 'f' << 8 | 4:
      return as(float());
    case 'f' << 8 | 8:
      return as(double());
    case 'i' << 8 | 1:
      return as(std::int8_t());
    case 'i' << 8 | 2:
      return as(std::int16_t());
    case 'i' << 8 | 4:
      return as(std::int32_t());
    case 'i' << 8 | 8:
      return as(std::int64_t());
    case 'u' << 8 | 1:
      return as(std::uint8_t());
    case 'u' << 8 | 2:
      return as(std::uint16_t());
    case 'u' << 8 | 4:
      return as(std::uint32_t());
    case 'u' << 8 | 8:
      return as(std::uint64_t());
    default:
      throw std::invalid_argument("element: a type that no case has");
  }
}

}  // namespace

std::string expected_path(const std::string& name) { return std::string(CUBOID_EXPECTED_DIR "/") + name; }

Array read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.compare(0, 8, std::string("\x93NUMPY\x01\x00", 8)) != 0) throw std::runtime_error(path + ": not .npy 1.0");
  const std::size_t length = std::size_t(std::uint8_t(bytes[8])) | std::size_t(std::uint8_t(bytes[9])) << 8;
  const std::string head = bytes.substr(10, length);
  const std::size_t descr = head.find("'descr': '") + 10, shape = head.find("'shape': (") + 10;
  if (head.find("'fortran_order': False") == std::string::npos) throw std::runtime_error(path + ": not in C order");
  test_host::Shape extents;
  for (const auto& extent : split(head.substr(shape, head.find(')', shape) - shape), ','))
    if (extent.find_first_not_of(' ') != std::string::npos) extents.push_back(std::stoll(extent));
  Array array = Array::zeros({std::uint8_t(head[descr + 1]), 0, std::uint16_t(std::stoi(head.substr(descr + 2)))},
                             std::move(extents));
  if (bytes.size() - 10 - length != array.bytes.size())
    throw std::runtime_error(path + ": of another size than its shape");
  if (!array.bytes.empty()) std::memcpy(array.bytes.data(), bytes.data() + 10 + length, array.bytes.size());
  return array;
}

std::vector<Case> cases_of(const std::string& function) {
  std::ifstream file(expected_path("cases.txt"));
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    const auto fields = split(line, '|');
    if (fields.at(0) != function) continue;
    Case c{line, fields.at(1), std::stod(fields.at(2)), {}, std::stod(fields.at(4)), {}, {}};
    for (const auto& param : split(fields.at(3), ',')) {
      const auto name = split(param, '=');
      c.params.emplace(name.at(0), parse_value(name.at(1)));
    }
    c.in = read_npy(expected_path(fields.at(5)));
    c.out = read_npy(expected_path(fields.at(6)));
    cases.push_back(std::move(c));
  }
  EXPECT_FALSE(cases.empty()) << "no cases of " << function << " in " << expected_path("cases.txt");
  return cases;
}

testing::AssertionResult close(const Array& a, const Array& b, double tolerance) {
  if (a.shape != b.shape)
    return testing::AssertionFailure() << "shape " << testing::PrintToString(a.shape) << ", expected "
                                       << testing::PrintToString(b.shape);
  if (!sdk::same(a.dtype, b.dtype)) return testing::AssertionFailure() << "another element type than expected";
  for (std::size_t i = 0; i < std::size_t(test_host::count(a.shape)); ++i) {
    const double x = element(a, i), y = element(b, i);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (!(std::fabs(x - y) <= tolerance * std::max(1.0, std::fabs(y))))
      return testing::AssertionFailure() << "element " << i << " is " << x << ", expected " << y << ", off by "
                                         << x - y;
  }
  return testing::AssertionSuccess();
}

std::vector<unsigned char> canonical(const Array& array, bool list) {
  if (!list) return array.bytes;
  const std::size_t columns = std::size_t(array.shape[1]);
  const auto values = array.values<double>();
  std::vector<std::vector<double>> rows;
  for (std::size_t at = 0; at < values.size(); at += columns)
    rows.emplace_back(values.begin() + std::ptrdiff_t(at), values.begin() + std::ptrdiff_t(at + columns));
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return std::pair(a[0], a[1]) < std::pair(b[0], b[1]); });
  std::vector<unsigned char> bytes;
  for (const auto& row : rows) {
    const auto* at = reinterpret_cast<const unsigned char*>(row.data());
    bytes.insert(bytes.end(), at, at + row.size() * sizeof(double));
  }
  return bytes;
}

}  // namespace cuboid::plugin_tests
