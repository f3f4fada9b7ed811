// Straight against the C header: nothing catches what this throws.
#include <cuboid/plugin.h>

#include <stdexcept>

CUBOID_MANIFEST(
    "{\"schema\":1,\"name\":\"thrower\",\"version\":\"1\",\"functions\":[{\"id\":\"thrower.throw/1\",\"doc\":\"Throws.\","
    "\"signature\":\"x:f8[n] -> y:f8[n]\",\"params\":[{\"name\":\"what\",\"type\":\"int\",\"default\":0}],"
    "\"memory\":{\"call_bytes\":{\"expr\":\"0\",\"trust\":\"exact\"},\"outside_bytes\":{\"expr\":\"0\",\"trust\":\"exact\"}}}]}");

static cuboid_status run(void*, cuboid_call* call) {
  if (call->param[0]->u.i == 0) throw std::runtime_error("over the border");
  throw 17;
}
static const cuboid_fn function = {sizeof(cuboid_fn), 0,       "thrower.throw/1", 1,       1,   1,       0,
                                   nullptr,           nullptr, nullptr,           nullptr, run, nullptr, nullptr,
                                   nullptr,           nullptr};
static const cuboid_fn* const functions[] = {&function};
static const cuboid_plugin plugin = {sizeof(cuboid_plugin), 0, "thrower", "1", 1, 0, functions, nullptr};
extern "C" const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello*, const char**) { return &plugin; }
