// The C++ layer at work: states, reductions, deliveries, parallel loops, exceptions at the border.
#include <cuboid/test_host.h>
#include <gtest/gtest.h>

#include <numeric>

namespace cuboid {
namespace {

using sdk::Call;
using sdk::Delivery;
using sdk::exact;
using sdk::Partial;
using test_host::Array;

Array ramp(std::int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0.0);
  return Array::of<double>({n}, values);
}

constexpr decl plain(const char* id, const char* signature) {
  return decl(id, signature, "For tests.").call_bytes("0", exact).outside_bytes("0", exact);
}

// A table made once per state, from memory that lives until close.
struct Table {
  struct State {
    std::pmr::vector<double> squares;
    explicit State(Call& c) : squares(std::size_t(c.integer("n_max")), c.memory()) {
      for (std::size_t i = 0; i < squares.size(); ++i) squares[i] = double(i * i);
    }
  };
  static constexpr auto meta = decl("test.table/1", "x:f8[n] -> y:f8[n]", "Squares by a table.")
                                   .param(sdk::integer("n_max", 100))
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact)
                                   .state_bytes("8*n_max + 1024", sdk::bound);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i)
      c.out<double, 1>(0)(i) = c.state<State>().squares.at(std::size_t(x(i)));
  }
};

TEST(SdkCall, StateLivesFromOpenToClose) {
  const auto report = test_host::run<Table>({ramp(10)}, {}, test_host::blocks({{"n", 3}}));
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  EXPECT_EQ(report.out[0].values<double>(), (std::vector<double>{0, 1, 4, 9, 16, 25, 36, 49, 64, 81}));
  EXPECT_EQ(report.leaked, 0u);
  EXPECT_FALSE(report.overrun);
}

TEST(SdkCall, RefusalWhileOpeningLeavesNothing) {
  for (const std::int64_t n : {0, 1}) {
    const auto report = test_host::run<Table>({ramp(4)}, {}, test_host::refusing(n));
    EXPECT_EQ(report.status, CUBOID_E_BUDGET);
    EXPECT_EQ(report.leaked, 0u);
  }
}

struct Mean {
  static constexpr auto meta =
      plain("test.mean/1", "x:f8[n] -> mean:f8[1], count:i8[1]").combine("sums:f8[2], blocks:i8[1]");
  static void init(Call&, Partial p) {
    p.at<double, 1>(0)(0) = p.at<double, 1>(0)(1) = 0, p.at<std::int64_t, 1>(1)(0) = 0;
  }
  static void accumulate(Call& c, Partial p) {
    const auto x = c.in<double, 1>(0);
    const auto sums = p.at<double, 1>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i) sums(0) += x(i), sums(1) += 1;
    p.at<std::int64_t, 1>(1)(0) += 1;
  }
  static void merge(Call&, Partial into, Partial from) {
    for (int i = 0; i < 2; ++i) into.at<double, 1>(0)(i) += from.at<double, 1>(0)(i);
    into.at<std::int64_t, 1>(1)(0) += from.at<std::int64_t, 1>(1)(0);
  }
  static void finalize(Call& c, Partial p) {
    const auto sums = p.at<double, 1>(0);
    c.out<double, 1>(0)(0) = sums(1) > 0 ? sums(0) / sums(1) : -1;
    c.out<std::int64_t, 1>(1)(0) = p.at<std::int64_t, 1>(1)(0);
  }
};

TEST(SdkCall, ReductionGoesOverBlocks) {
  const auto report = test_host::run<Mean>({ramp(11)}, {}, test_host::blocks({{"n", 4}}));
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  EXPECT_EQ(report.out[0].values<double>(), std::vector<double>{5});
  EXPECT_EQ(report.out[1].values<std::int64_t>(), std::vector<std::int64_t>{3});
  const auto empty = test_host::run<Mean>({ramp(0)});
  EXPECT_EQ(empty.out[0].values<double>(), std::vector<double>{-1});
}

// The same list by every delivery: elements above 2, each twice.
template <int kind>
struct Twice {
  static constexpr const char* kSignature[] = {"x:f8[n] -> y:f8[<=2*n]", "x:f8[n] -> y:f8[~<=1]",
                                               "x:f8[n] -> y:f8[<=2*n]", "x:f8[n] -> y:f8[<=2*n]"};
  static constexpr Delivery kDelivery[] = {Delivery::trim, Delivery::grow, Delivery::emit, Delivery::push};
  static constexpr auto meta =
      plain("test.twice/1", kSignature[kind]).output("y", kDelivery[kind], "n", kind == 3 ? "2" : "");
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    if constexpr (kind <= 1) {
      auto rows = kind == 1 ? c.rows<double>(0).growing() : c.rows<double>(0);
      for (std::int64_t i = 0; i < x.extent(0); ++i)
        if (x(i) > 2) rows.add(x(i)), rows.add(x(i));
      rows.finish();
    } else if constexpr (kind == 2) {
      std::int64_t n = 0;
      for (std::int64_t i = 0; i < x.extent(0); ++i) n += x(i) > 2 ? 2 : 0;
      const auto y = c.emit<double, 1>(0, {n});
      for (std::int64_t i = 0, k = 0; i < x.extent(0); ++i)
        if (x(i) > 2) y(k++) = x(i), y(k++) = x(i);
    } else {
      for (std::int64_t i = 0; i < x.extent(0); ++i) {
        const double pair[] = {x(i), x(i)};
        if (x(i) > 2) c.push(0, pair, 2);
      }
    }
  }
};

template <int kind>
void expect_twice() {
  const test_host::Report report = test_host::run<Twice<kind>>({ramp(6)}, {}, test_host::blocks({{"n", 4}}));
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  EXPECT_EQ(report.out[0].values<double>(), (std::vector<double>{3, 3, 4, 4, 5, 5}));
  const test_host::Report none = test_host::run<Twice<kind>>({ramp(2)});
  ASSERT_EQ(none.status, CUBOID_OK) << none.message;
  EXPECT_EQ(none.out[0].shape, test_host::Shape{0});
}

TEST(SdkCall, EveryDeliveryGivesTheSame) {
  expect_twice<0>();
  expect_twice<1>();
  expect_twice<2>();
  expect_twice<3>();
}

TEST(SdkCall, RowsBeyondTheCapacityAreCountedNotWritten) {
  test_host::Options options;
  options.capacity = 3;
  for (const auto& report :
       {test_host::run<Twice<0>>({ramp(6)}, {}, options), test_host::run<Twice<2>>({ramp(6)}, {}, options)}) {
    EXPECT_EQ(report.status, CUBOID_E_BOUND);
    EXPECT_EQ(report.needed_rows, 6);
    EXPECT_FALSE(report.overrun);
  }
}

// What happens inside is chosen by the first element.
struct Trouble {
  static constexpr auto meta = plain("test.trouble/1", "x:f8[n] -> y:f8[n]");
  static void run(Call& c) {
    switch (int(c.in<double, 1>(0)(0))) {
      case 0:
        throw std::runtime_error("the sky is falling");
      case 1:
        throw 5;
      case 2:
        throw std::bad_alloc();
      case 3:
        throw sdk::Failure(CUBOID_E_NUMERIC, "no convergence", 77);
      case 4:
        (void)c.in<float, 1>(0);
        break;
      case 5:
        (void)c.real("absent");
        break;
      case 6:
        (void)c.scratch<double>(-1);
        break;
      case 7:
        c.out<double, 1>(0)(c.in<double, 1>(0).extent(0)) = 1;
        break;  // one beyond the end
      default:
        break;
    }
  }
};

test_host::Report trouble(double kind) { return test_host::run<Trouble>({Array::of<double>({2}, {kind, 0})}); }

TEST(SdkCall, ExceptionsBecomeStatuses) {
  const std::pair<cuboid_status, const char*> expected[] = {
      {CUBOID_E_THROWN, "the sky is falling"}, {CUBOID_E_THROWN, "no std::exception"},
      {CUBOID_E_BUDGET, "outside the host"},   {CUBOID_E_NUMERIC, "no convergence"},
      {CUBOID_E_DTYPE, "another type"},        {CUBOID_E_INTERNAL, "'absent'"},
      {CUBOID_E_INTERNAL, "impossible size"}};
  for (int kind = 0; kind < 7; ++kind) {
    const auto report = trouble(kind);
    EXPECT_EQ(report.status, expected[kind].first) << kind;
    EXPECT_NE(report.message.find(expected[kind].second), std::string::npos) << report.message;
  }
  EXPECT_EQ(trouble(3).needed_bytes, 77u);
}

TEST(SdkTestHost, SeesAWriteBesideTheOutput) {
  EXPECT_TRUE(trouble(7).overrun);
  EXPECT_FALSE(trouble(8).overrun);
}

struct Spread {
  static constexpr auto meta = plain("test.spread/1", "x:f8[n] -> y:f8[n]").param(sdk::integer("fail_from", 1000));
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    const auto y = c.out<double, 1>(0);
    const std::int64_t limit = c.integer("fail_from");
    c.spread(std::uint64_t(x.extent(0)), [&](std::uint64_t i, std::uint32_t lane) {
      if (lane >= c.lanes()) throw std::logic_error("a lane that is not there");
      if (std::int64_t(i) >= limit) throw std::runtime_error("body " + std::to_string(i));
      y(i) = 2 * x(i);
    });
  }
};

TEST(SdkCall, SpreadRunsEveryBodyAndRethrowsTheFirst) {
  test_host::Options options;
  options.lanes = 4;
  const auto report = test_host::run<Spread>({ramp(500)}, {}, options);
  ASSERT_EQ(report.status, CUBOID_OK) << report.message;
  const auto y = report.out[0].values<double>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 2.0 * double(i));
  const auto failed = test_host::run<Spread>({ramp(500)}, {{"fail_from", 3}}, options);
  EXPECT_EQ(failed.status, CUBOID_E_THROWN);
  EXPECT_EQ(failed.message, "body 3");
}

// What the host tells of a block's place, and how it makes up a halo.
struct Places {
  static constexpr auto meta = decl("test.places/1", "x:f8[n] -> y:f8[n], at:f8[n]", "First of the window; place.")
                                   .param(sdk::integer("width", 2))
                                   .halo("n", "width")
                                   .modes("reflect|nearest|constant|wrap|clip")
                                   .call_bytes("0", exact)
                                   .outside_bytes("0", exact);
  static void run(Call& c) {
    const auto x = c.in<double, 1>(0);
    for (std::int64_t i = 0; i < x.inner_extent(0); ++i) {
      const std::int64_t first = x.inner_origin(0) + i - c.integer("width");
      c.out<double, 1>(0)(i) = x(first < 0 ? 0 : first);
      c.out<double, 1>(1)(i) = double(x.origin(0) + x.inner_origin(0) + i) + 100.0 * double(x.whole(0));
    }
  }
};

TEST(SdkTestHost, HalosFollowTheBoundaryMode) {
  const std::map<std::string, std::vector<double>> expected = {{"reflect", {1, 0, 0, 1, 2}},
                                                               {"nearest", {0, 0, 0, 1, 2}},
                                                               {"constant", {9, 9, 0, 1, 2}},
                                                               {"wrap", {3, 4, 0, 1, 2}},
                                                               {"clip", {0, 0, 0, 1, 2}}};
  for (const auto& [mode, values] : expected)
    for (const std::int64_t block : {1, 2, 5}) {
      test_host::Options options = test_host::blocks({{"n", block}});
      options.boundary = mode;
      options.boundary_value = 9;
      const auto report = test_host::run<Places>({ramp(5)}, {}, options);
      ASSERT_EQ(report.status, CUBOID_OK) << report.message;
      EXPECT_EQ(report.out[0].values<double>(), values) << mode << " in blocks of " << block;
      EXPECT_EQ(report.out[1].values<double>(), (std::vector<double>{500, 501, 502, 503, 504})) << mode;
    }
}

// One function for several element types, chosen by the first type variable.
struct Sizes {
  static constexpr auto meta = plain("test.sizes/1", "x:T[n] -> y:i8[1]").types("T=b1|i1|u8|f4|c8|c16").all();
  template <class T>
  static void run(Call& c) {
    c.out<std::int64_t, 1>(0)(0) = std::int64_t(sizeof(T)) * 1000 + c.in<T, 1>(0).extent(0);
  }
};

template <class T>
std::int64_t size_of() {
  const test_host::Report report = test_host::run<Sizes>({Array::zeros(sdk::dtype_of<T>(), {7})});
  return report.status == CUBOID_OK ? report.out[0].values<std::int64_t>()[0] : report.status;
}

TEST(SdkCall, DispatchesOverTypes) {
  EXPECT_EQ(size_of<bool>(), 1007);
  EXPECT_EQ(size_of<std::int8_t>(), 1007);
  EXPECT_EQ(size_of<std::uint64_t>(), 8007);
  EXPECT_EQ(size_of<float>(), 4007);
  EXPECT_EQ(size_of<std::complex<float>>(), 8007);
  EXPECT_EQ(size_of<std::complex<double>>(), 16007);
  EXPECT_EQ(size_of<double>(), CUBOID_E_DTYPE);
}

}  // namespace
}  // namespace cuboid
