/* A plugin that keeps every promise but the one named by -DBREAK=NAME: `y` is twice `x`, `large` the elements above 100. */
#define _GNU_SOURCE
#include <cuboid/plugin.h>
#include <fenv.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Lists that read better as they are.
// clang-format off
enum {
  nothing, falling, other_table, exporting, loading, inferring, example, failing, counting, cutting, striding, sharing,
  reading, writing, scribbling, leaving, overfull, silent, taking, keeping, mallocing, leaking, ignoring, dying,
  refusal_kills, changing, rounding, moving, aborting
};


#define MANIFEST(BOUND, CALL, OUTSIDE, EXAMPLE)                                                                        \
  CUBOID_MANIFEST("{\"schema\":1,\"name\":\"broken\",\"version\":\"1\",\"functions\":[{\"id\":\"broken.twice/1\","     \
                  "\"doc\":\"Twice x, and what is above 100.\",\"signature\":\"x:f8[n] -> y:f8[n], large:f8[<=" BOUND  \
                  "]\",\"memory\":{\"call_bytes\":{\"expr\":\"" CALL "\",\"trust\":\"bound\"},"                        \
                  "\"state_bytes\":{\"expr\":\"128\",\"trust\":\"exact\"},\"outside_bytes\":" OUTSIDE "},"             \
                  "\"flags\":[\"pure\",\"reentrant\"],\"splittable\":[\"n\"],\"examples\":[{"                          \
                  "\"in\":[{\"dtype\":\"f8\",\"shape\":[3],\"data\":[1,200,3]}],"                                      \
                  "\"out\":[{\"dtype\":\"f8\",\"shape\":[3],\"data\":[2,400," EXAMPLE "]},"                            \
                  "{\"dtype\":\"f8\",\"shape\":[1],\"data\":[200]}]}]}]}")
// clang-format on
#define NOTHING "{\"expr\":\"0\",\"trust\":\"exact\"}"
#if defined BREAK_falling
MANIFEST("n", "100000-n", NOTHING, "6");
#elif defined BREAK_overfull
MANIFEST("ceil(n/4)", "8*n+64", NOTHING, "6");
#elif defined BREAK_example
MANIFEST("n", "8*n+64", NOTHING, "7");
#elif defined BREAK_inferring
MANIFEST("n", "8*n+64", "{\"expr\":\"callback\"}", "6");
#else
MANIFEST("n", "8*n+64", NOTHING, "6");
#endif

static double shared;
static long counter;

static cuboid_status infer(const cuboid_ask* ask, cuboid_answer* answer) {
  volatile char* memory = malloc(100);
  memory[0] = 1;
  free((void*)memory);
  for (int k = 0; k < 2; ++k) {
    answer->out[k]->rank = 1;
    answer->out[k]->dtype = ask->in[0]->dtype;
    answer->out[k]->shape_trust = k ? CUBOID_BOUND : CUBOID_EXACT;
    answer->out[k]->max_shape[0] = ask->in[0]->shape[0];
  }
  answer->call_bytes = 8 * (uint64_t)ask->in[0]->shape[0] + 64, answer->call_trust = CUBOID_BOUND;
  answer->state_bytes = 128, answer->state_trust = CUBOID_EXACT;
  answer->outside_trust = CUBOID_EXACT;
  return CUBOID_OK;
}

static cuboid_status open_state(cuboid_call* call, void** state) {
  return call->host->acquire(call, BREAK == keeping ? 1024 : 128, 0, "state", state);
}
static void close_state(cuboid_call* call, void* state) { call->host->release(call, state); }

static cuboid_status run(void* state, cuboid_call* call) {
  const cuboid_view *x = call->in[0], *y = call->out[0], *large = call->out[1];
  const int64_t n = x->shape[0];
  char *from = x->data, *to = y->data, *rows = large->data;
  int64_t count = 0;
  double* copy;
  (void)state;
  if (call->host->cancelled(call)) {
    if (BREAK == dying) abort();
    return CUBOID_E_CANCELLED;
  }
  if (BREAK == aborting && n > 10) abort();
  if (BREAK == failing && n > 10) return call->host->fail(call, CUBOID_E_NUMERIC, 0, "too many numbers");
  if (call->host->scratch(call, 8 * (uint64_t)n * (BREAK == taking ? 2 : 1), 0, (void**)&copy) != CUBOID_OK) {
    if (BREAK == refusal_kills) copy[0] = 0;
    return BREAK == ignoring ? CUBOID_OK : CUBOID_E_BUDGET;
  }
  for (int64_t i = 0; i < n; ++i)
    copy[i] = *(double*)(from + i * (BREAK == striding ? 8 : x->stride_bytes[0])) + (BREAK == counting ? counter : 0);
  ++counter;
  if (BREAK == cutting && x->origin[0] > 0) copy[0] += 1;
  if (BREAK == reading && n > 0) shared = *(volatile double*)(from + n * x->stride_bytes[0]);
  if (BREAK == scribbling && n > 0) *(volatile double*)from = *(volatile double*)from;
  if (BREAK == mallocing) {
    volatile char* memory = malloc(1 << 20);
    memory[0] = 1;
    free((void*)memory);
  }
  if (BREAK == leaking) {
    void* memory;
    if (call->host->acquire(call, 0, 0, "leak", &memory) != CUBOID_OK) return CUBOID_E_BUDGET;
  }
  if (BREAK == sharing && n > 0) {
    shared = copy[n - 1];
    usleep(2000);
    copy[n - 1] = shared;
  }
  if (BREAK == changing) umask(0);
  if (BREAK == rounding) fesetround(FE_UPWARD);
  if (BREAK == moving && chdir("/") != 0) abort();
  for (int64_t i = 0; i < n; ++i) {
    if (BREAK != leaving || x->origin[0] + i != 3) *(double*)(to + i * y->stride_bytes[0]) = 2 * copy[i];
    if (!(copy[i] > 100)) continue;
    if (count < large->shape[0]) *(double*)(rows + count * large->stride_bytes[0]) = copy[i];
    ++count;
  }
  if (BREAK == writing && n > 0) *(volatile double*)(to + n * y->stride_bytes[0]) = 0;
  const cuboid_status status = call->host->trim(call, 1, &count);
  return BREAK == silent ? CUBOID_OK : status;
}

static const cuboid_fn twice = {.size = sizeof(cuboid_fn),
                                .flags = CUBOID_F_PURE | CUBOID_F_REENTRANT,
                                .id = BREAK == other_table ? "broken.thrice/1" : "broken.twice/1",
                                .n_in = 1,
                                .n_out = 2,
                                .infer = BREAK == inferring ? infer : NULL,
                                .open = open_state,
                                .close = close_state,
                                .run = run};
static const cuboid_fn* const functions[] = {&twice};
static const cuboid_plugin plugin = {
    .size = sizeof(cuboid_plugin), .name = "broken", .version = "1", .n_fn = 1, .fn = functions};

#if defined BREAK_exporting
CUBOID_EXPORT int cuboid_another_symbol(void) { return 1; }
#endif
#if defined BREAK_loading
static volatile char* taken;
__attribute__((constructor)) static void take(void) {
  taken = malloc(1 << 20);
  taken[0] = 1;
}
#endif

const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) {
  (void)hello, (void)why;
  return &plugin;
}
