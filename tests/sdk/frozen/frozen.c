/* A plugin of minor 0, in C, that uses what there was: state, parameters of every kind, memory, trim, push, grow, log. */
#include <cuboid/plugin.h>
#include <string.h>

#define MEMORY(CALL)                                                                                          \
  "\"memory\":{\"call_bytes\":{\"expr\":\"" CALL "\",\"trust\":\"bound\"},"                                   \
  "\"state_bytes\":{\"expr\":\"64\",\"trust\":\"exact\"},\"outside_bytes\":{\"expr\":\"0\",\"trust\":\"exact\"}}"
#define FLAGS "\"flags\":[\"pure\",\"reentrant\"]"

CUBOID_MANIFEST(
    "{\"schema\":1,\"name\":\"frozen\",\"version\":\"1.0.0\",\"abi\":{\"major\":1,\"needs_minor\":0},\"functions\":["
    "{\"id\":\"frozen.weigh/1\",\"doc\":\"(x + offset) * scale where keep, else 0.\",\"signature\":\"x:f8[n] -> y:f8[n]\","
    "\"params\":[{\"name\":\"scale\",\"type\":\"float\",\"default\":2},{\"name\":\"offset\",\"type\":\"int\",\"default\":1},"
    "{\"name\":\"keep\",\"type\":\"bool\",\"default\":true},{\"name\":\"mode\",\"type\":\"string\",\"default\":\"plain\","
    "\"choices\":[\"plain\",\"twice\"]},{\"name\":\"weights\",\"type\":\"float[]\",\"default\":[1,10]}],"
    MEMORY("8*n+64") "," FLAGS ",\"splittable\":[\"n\"]},"
    "{\"id\":\"frozen.above/1\",\"doc\":\"Elements above 2, in order.\",\"signature\":\"x:f8[n] -> y:f8[<=n]\","
    MEMORY("0") "," FLAGS ",\"splittable\":[\"n\"]},"
    "{\"id\":\"frozen.pushed/1\",\"doc\":\"The same in slabs of one.\",\"signature\":\"x:f8[n] -> y:f8[<=n]\","
    "\"outputs\":{\"y\":{\"delivery\":\"push\",\"slab\":\"1\"}}," MEMORY("0") "," FLAGS ",\"splittable\":[\"n\"]},"
    "{\"id\":\"frozen.total/1\",\"doc\":\"The sum.\",\"signature\":\"x:f8[n] -> s:f8[]\","
    "\"combine\":{\"partial\":\"s:f8[1]\"}," MEMORY("0") "," FLAGS "}]}");

static double at(const cuboid_view* v, int64_t i) {
  double value;
  memcpy(&value, (char*)v->data + i * v->stride_bytes[0], sizeof value);
  return value;
}
static void put(const cuboid_view* v, int64_t i, double value) {
  memcpy((char*)v->data + (v->rank ? i * v->stride_bytes[0] : 0), &value, sizeof value);
}

static cuboid_status open_state(cuboid_call* call, void** state) {
  const cuboid_status refused = call->host->acquire(call, sizeof(double), 0, "state", state);
  if (refused == CUBOID_OK) *(double*)*state = 1;
  return refused;
}
static void close_state(cuboid_call* call, void* state) { call->host->release(call, state); }

static cuboid_status weigh(void* state, cuboid_call* call) {
  const cuboid_view *x = call->in[0], *y = call->out[0];
  double *copy, scale = call->param[0]->u.f * *(double*)state;
  void* memory;
  int64_t i;
  const cuboid_status refused = call->host->scratch(call, (uint64_t)x->shape[0] * sizeof(double), 0, &memory);
  if (refused != CUBOID_OK) return refused;
  copy = (double*)memory;
  if (strcmp(call->param[3]->u.s, "twice") == 0) scale *= 2;
  if (call->param[4]->count != 2) return call->host->fail(call, CUBOID_E_PARAM, 0, "two weights are needed");
  scale *= call->param[4]->u.fv[0] * call->param[4]->u.fv[1] / 10;
  for (i = 0; i < x->shape[0]; ++i) copy[i] = (at(x, i) + (double)call->param[1]->u.i) * scale;
  for (i = 0; i < x->shape[0]; ++i) put(y, i, call->param[2]->u.i ? copy[i] : 0);
  call->host->progress(call, 1);
  call->host->log(call, 0, "weighed");
  return CUBOID_OK;
}

static cuboid_status above(void* state, cuboid_call* call) {
  const cuboid_view* x = call->in[0];
  int64_t i, rows = 0;
  (void)state;
  for (i = 0; i < x->shape[0]; ++i)
    if (at(x, i) > 2) {
      if (rows < call->out[0]->shape[0]) put(call->out[0], rows, at(x, i));
      ++rows;
    }
  return call->host->trim(call, 0, &rows);
}

static cuboid_status pushed(void* state, cuboid_call* call) {
  const cuboid_view* x = call->in[0];
  int64_t i, one = 1, stride = sizeof(double);
  (void)state;
  for (i = 0; i < x->shape[0]; ++i) {
    double value = at(x, i);
    cuboid_status status;
    cuboid_view slab;
    if (!(value > 2)) continue;
    memset(&slab, 0, sizeof slab);
    slab.size = sizeof slab;
    slab.rank = 1;
    slab.flags = CUBOID_V_READONLY;
    slab.dtype = x->dtype;
    slab.alignment = 8;
    slab.data = &value;
    slab.shape = &one;
    slab.stride_bytes = &stride;
    status = call->host->push(call, 0, &slab);
    if (status != CUBOID_OK) return status;
  }
  return CUBOID_OK;
}

static cuboid_status total_init(void* state, cuboid_call* call, const cuboid_view* const* partial) {
  (void)state, (void)call;
  put(partial[0], 0, 0);
  return CUBOID_OK;
}
static cuboid_status total_add(void* state, cuboid_call* call, const cuboid_view* const* partial) {
  int64_t i;
  (void)state;
  for (i = 0; i < call->in[0]->shape[0]; ++i) put(partial[0], 0, at(partial[0], 0) + at(call->in[0], i));
  return CUBOID_OK;
}
static cuboid_status total_merge(void* state, cuboid_call* call, const cuboid_view* const* into,
                                 const cuboid_view* const* from) {
  (void)state, (void)call;
  put(into[0], 0, at(into[0], 0) + at(from[0], 0));
  return CUBOID_OK;
}
static cuboid_status total_end(void* state, cuboid_call* call, const cuboid_view* const* partial) {
  (void)state;
  put(call->out[0], 0, at(partial[0], 0));
  return CUBOID_OK;
}

#define PROMISES (CUBOID_F_PURE | CUBOID_F_REENTRANT)
static const cuboid_fn functions[] = {
    {sizeof(cuboid_fn), PROMISES, "frozen.weigh/1", 1, 1, 5, 0, 0, 0, open_state, close_state, weigh, 0, 0, 0, 0},
    {sizeof(cuboid_fn), PROMISES, "frozen.above/1", 1, 1, 0, 0, 0, 0, 0, 0, above, 0, 0, 0, 0},
    {sizeof(cuboid_fn), PROMISES, "frozen.pushed/1", 1, 1, 0, 0, 0, 0, 0, 0, pushed, 0, 0, 0, 0},
    {sizeof(cuboid_fn), PROMISES, "frozen.total/1", 1, 1, 0, 0, 0, 0, 0, 0, 0, total_init, total_add, total_merge, total_end},
};
static const cuboid_fn* const table[] = {&functions[0], &functions[1], &functions[2], &functions[3]};
static const cuboid_plugin plugin = {sizeof(cuboid_plugin), CUBOID_NEEDS_MINOR, "frozen", "1.0.0", 4, 0, table, 0};

const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) {
  if (hello->major == CUBOID_MAJOR && hello->min_minor <= 0) return &plugin;
  *why = "a host of another version";
  return 0;
}
