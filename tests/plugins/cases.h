// The cases that make_expected.py wrote, and what is asked of a plugin function in each: the values of SciPy or NumPy,
// the same bits for every block shape and memory layout, memory within the manifest's formula, clean failures.
#pragma once
#include <cuboid/test_host.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace cuboid::plugin_tests {

struct Case {
  std::string text;  // the line, for messages
  std::string boundary;
  double boundary_value = 0;
  test_host::Params params;
  double tolerance = 0;
  test_host::Array in, out;
};

// NumPy's format, version 1, C order. Throws where it is something else.
test_host::Array read_npy(const std::string& path);
// The cases of one function; at least one.
std::vector<Case> cases_of(const std::string& function);
std::string expected_path(const std::string& name);

// Whether all elements agree: |a - b| <= tolerance * max(1, |b|), NaN equal to NaN.
testing::AssertionResult close(const test_host::Array& a, const test_host::Array& b, double tolerance);
// The bytes of an array; rows of a list in the order of their first two columns, whatever the order of blocks was.
std::vector<unsigned char> canonical(const test_host::Array& array, bool list);

inline test_host::Options options_of(const Case& c) {
  test_host::Options options;
  options.boundary = c.boundary;
  options.boundary_value = c.boundary_value;
  return options;
}

// A call that must succeed within its promises.
template <class F>
test_host::Report good_run(const Case& c, const test_host::Options& options) {
  auto report = test_host::run<F>({c.in}, c.params, options);
  EXPECT_EQ(report.status, CUBOID_OK) << report.message;
  EXPECT_LE(report.peak, report.declared);
  EXPECT_EQ(report.leaked, 0u);
  EXPECT_FALSE(report.overrun);
  return report;
}

template <class F>
void expect_same_bits(const Case& c, const test_host::Options& options, const test_host::Array& whole, bool list) {
  const auto report = good_run<F>(c, options);
  ASSERT_EQ(report.status, CUBOID_OK);
  EXPECT_EQ(report.out[0].shape, whole.shape);
  EXPECT_TRUE(canonical(report.out[0], list) == canonical(whole, list)) << "other bits than uncut and contiguous";
}

template <class F>
void expect_clean_failure(const Case& c, const test_host::Options& options, cuboid_status status) {
  const auto report = test_host::run<F>({c.in}, c.params, options);
  EXPECT_EQ(report.status, status) << report.message;
  EXPECT_FALSE(report.message.empty());
  EXPECT_EQ(report.leaked, 0u);
  EXPECT_FALSE(report.overrun);
}

template <class F>
void check_failures(const Case& c, const test_host::Report& whole, bool list) {
  auto options = options_of(c);
  for (std::int64_t n = 0; n < whole.requests; ++n) {
    options.refuse = n;
    expect_clean_failure<F>(c, options, CUBOID_E_BUDGET);
  }
  options.refuse = -1;
  if (whole.peak > 0) {
    options.limit = whole.peak - 1;
    expect_clean_failure<F>(c, options, CUBOID_E_BUDGET);
    options.limit = whole.peak;
    good_run<F>(c, options);
  }
  options = options_of(c);
  options.cancel_at = 0;
  expect_clean_failure<F>(c, options, CUBOID_E_CANCELLED);
  if (list && whole.out[0].shape[0] > 0) {
    options = options_of(c);
    options.capacity = whole.out[0].shape[0] - 1;
    expect_clean_failure<F>(c, options, CUBOID_E_BOUND);
    EXPECT_EQ(test_host::run<F>({c.in}, c.params, options).needed_rows, whole.out[0].shape[0]);
    options.capacity = whole.out[0].shape[0];
    good_run<F>(c, options);
  }
}

// Everything that is asked of function F in the cases of `name`. list: its output is rows of y, x, ...
template <class F>
void check_function(const std::string& name, bool list) {
  using test_host::Layout;
  for (const Case& c : cases_of(name)) {
    SCOPED_TRACE(c.text);
    const auto whole = good_run<F>(c, options_of(c));
    ASSERT_EQ(whole.status, CUBOID_OK);
    EXPECT_TRUE(close(whole.out[0], c.out, c.tolerance));
    for (const auto& [rows, columns] : {std::pair{17, 23}, {1, 100}, {100, 1}}) {
      auto options = options_of(c);
      options.block = {{"y", rows}, {"x", columns}};
      expect_same_bits<F>(c, options, whole.out[0], list);
    }
    for (const Layout layout : {Layout::padded, Layout::reversed, Layout::sparse}) {
      auto options = options_of(c);
      options.layout = layout;
      expect_same_bits<F>(c, options, whole.out[0], list);
    }
    check_failures<F>(c, whole, list);
  }
}

}  // namespace cuboid::plugin_tests
