#pragma once
#include <cuboid/plugin.hpp>

struct Above {
  static constexpr auto meta = cuboid::decl("@NAME@.above/1", "x:T[n] -> y:T[<=n]", "Values greater than t, in order.")
                                   .types("T=f4|f8")
                                   .param(cuboid::sdk::real("t", 0).help("The threshold."))
                                   .call_bytes("0", cuboid::sdk::exact)
                                   .outside_bytes("0", cuboid::sdk::exact)
                                   .flags(cuboid::sdk::pure | cuboid::sdk::reentrant)
                                   .splittable("n");
  template <class T>
  static void run(cuboid::sdk::Call& c) {
    const auto x = c.in<T, 1>(0);
    auto y = c.rows<T>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i)
      if (x(i) > c.real("t")) y.add(x(i));
    y.finish();
  }
};
