/* A plugin in C: one function, its manifest written by hand. */
#include <cuboid/plugin.h>

CUBOID_MANIFEST(
    "{\"schema\":1,\"name\":\"cscale\",\"version\":\"1.0.0\",\"functions\":[{\"id\":\"demo.scale/1\","
    "\"doc\":\"Every element times a factor.\",\"signature\":\"x:f8[n] -> y:f8[n]\","
    "\"params\":[{\"name\":\"factor\",\"type\":\"float\",\"default\":2}],"
    "\"memory\":{\"call_bytes\":{\"expr\":\"8*n+64\",\"trust\":\"bound\"},"
    "\"outside_bytes\":{\"expr\":\"0\",\"trust\":\"exact\"}},\"flags\":[\"pure\",\"reentrant\"]}]}");

static double* element(const cuboid_view* v, int64_t i) { return (double*)((char*)v->data + i * v->stride_bytes[0]); }

/* Goes by way of scratch, for the sake of the memory. */
static cuboid_status run(void* state, cuboid_call* call) {
  const cuboid_view *x = call->in[0], *y = call->out[0];
  void* memory;
  double* copy;
  int64_t i;
  const cuboid_status refused = call->host->scratch(call, (uint64_t)x->shape[0] * sizeof(double), 0, &memory);
  (void)state;
  if (refused != CUBOID_OK) return refused;
  copy = (double*)memory;
  for (i = 0; i < x->shape[0]; ++i) copy[i] = *element(x, i);
  if (call->host->cancelled(call)) return call->host->fail(call, CUBOID_E_CANCELLED, 0, "cancelled");
  for (i = 0; i < x->shape[0]; ++i) *element(y, i) = copy[i] * call->param[0]->u.f;
  return CUBOID_OK;
}

static const cuboid_fn scale = {
    sizeof(cuboid_fn), CUBOID_F_PURE | CUBOID_F_REENTRANT, "demo.scale/1", 1, 1, 1, 0, 0, 0, 0, 0, run, 0, 0, 0, 0};
static const cuboid_fn* const functions[] = {&scale};
static const cuboid_plugin plugin = {sizeof(cuboid_plugin), CUBOID_NEEDS_MINOR, "cscale", "1.0.0", 1, 0, functions, 0};

const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) {
  if (hello->major == CUBOID_MAJOR) return &plugin;
  *why = "a host of another major version";
  return 0;
}
