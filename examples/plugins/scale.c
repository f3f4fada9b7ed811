/* demo.scale in C99: the manifest is written by hand. */
#include <cuboid/plugin.h>

CUBOID_MANIFEST(
    "{\"schema\":1,\"name\":\"scale\",\"version\":\"1.0.0\",\"functions\":[{\"id\":\"demo.scale/1\","
    "\"doc\":\"Every element times a factor.\",\"signature\":\"x:f8[n] -> y:f8[n]\","
    "\"params\":[{\"name\":\"factor\",\"type\":\"float\",\"default\":2,\"doc\":\"What to multiply by.\"}],"
    "\"memory\":{\"call_bytes\":{\"expr\":\"0\",\"trust\":\"exact\"},\"outside_bytes\":{\"expr\":\"0\",\"trust\":\"exact\"}},"
    "\"flags\":[\"pure\",\"reentrant\"],\"splittable\":[\"n\"]}]}");

static cuboid_status run(void* state, cuboid_call* call) {
  const cuboid_view *x = call->in[0], *y = call->out[0];
  const double factor = call->param[0]->u.f;
  const char* from = (const char*)x->data; /* strides are bytes; they may be negative */
  char* to = (char*)y->data;
  int64_t i;
  (void)state;
  for (i = 0; i < x->shape[0]; ++i, from += x->stride_bytes[0], to += y->stride_bytes[0])
    *(double*)to = *(const double*)from * factor;
  return CUBOID_OK;
}

static const cuboid_fn scale = {
    sizeof(cuboid_fn), CUBOID_F_PURE | CUBOID_F_REENTRANT, "demo.scale/1", 1, 1, 1, 0, 0, 0, 0, 0, run, 0, 0, 0, 0};
static const cuboid_fn* const functions[] = {&scale};
static const cuboid_plugin plugin = {sizeof(cuboid_plugin), CUBOID_NEEDS_MINOR, "scale", "1.0.0", 1, 0, functions, 0};

const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) {
  if (hello->major == CUBOID_MAJOR) return &plugin;
  *why = "a host of another major version";
  return 0;
}
