// demo.scale in C++: the signature and the manifest are checked by the compiler.
#include <cuboid/plugin.hpp>

struct Scale {
  static constexpr auto meta = cuboid::decl("demo.scale/1", "x:f8[n] -> y:f8[n]", "Every element times a factor.")
                                   .param(cuboid::sdk::real("factor", 2).help("What to multiply by."))
                                   .call_bytes("0", cuboid::sdk::exact)
                                   .outside_bytes("0", cuboid::sdk::exact)
                                   .flags(cuboid::sdk::pure | cuboid::sdk::reentrant)
                                   .splittable("n");
  static void run(cuboid::sdk::Call& call) {
    const auto x = call.in<double, 1>(0);
    const auto y = call.out<double, 1>(0);
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = x(i) * call.real("factor");
  }
};
CUBOID_PLUGIN("scale", "1.0.0", Scale)
