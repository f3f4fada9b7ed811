// Functions that behave and misbehave in every way the host must stand: each does one thing. Written against plugin.h
// alone, so that what is tested is the ABI and not a layer above it.
#include <cuboid/plugin.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

CUBOID_MANIFEST(R"json({"schema": 1, "name": "behave", "version": "1.2.3", "functions": [
 {"id": "test.twice/1", "doc": "2 x.", "signature": "x:T[n] -> y:T[n]", "types": {"T": ["f8", "i4"]},
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}},
  "flags": ["pure", "reentrant"], "splittable": ["n"],
  "examples": [{"in": [{"dtype": "f8", "shape": [2], "data": [1, 2.5]}],
                "out": [{"dtype": "f8", "shape": [2], "data": [2, 5]}]}]},
 {"id": "test.twice/2", "doc": "2 x, newer.", "signature": "x:f8[n] -> y:f8[n]",
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}},
  "flags": ["pure", "reentrant"]},
 {"id": "test.window/1", "doc": "Sum over a window.", "signature": "x:f8[y,x] -> s:f8[y,x]",
  "params": [{"name": "radius", "type": "int", "default": 1, "min": 0, "max": 1000}],
  "regions": {"kind": "halo", "halo": {"y": "radius", "x": "radius"},
              "modes": ["reflect", "nearest", "constant", "wrap", "clip"], "default": "reflect"},
  "memory": {"call_bytes": {"expr": "8*(y + 2*halo_y)*x + 64", "trust": "bound"},
             "outside_bytes": {"expr": "0", "trust": "exact"}}, "flags": ["pure", "reentrant"]},
 {"id": "test.alone/1", "doc": "How many of the library's calls were under way.", "signature": "x:f8[n] -> y:f8[n]",
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.alone_too/1", "doc": "The same.", "signature": "x:f8[n] -> y:f8[n]",
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.together/1", "doc": "The same; may overlap.", "signature": "x:f8[n] -> y:f8[n]",
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}},
  "flags": ["reentrant"]},
 {"id": "test.above/1", "doc": "Values above t.", "signature": "x:f8[n] -> y:f8[<=n]",
  "params": [{"name": "t", "type": "float", "default": 0}],
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}},
  "flags": ["pure", "reentrant"], "splittable": ["n"]},
 {"id": "test.rows/1", "doc": "Hands over `rows` rows of two numbers.", "signature": "x:f8[n] -> r:f8[~<=n/4, 2]",
  "params": [{"name": "rows", "type": "int", "required": true, "min": 0}],
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.emits/1", "doc": "As rows, by emit.", "signature": "x:f8[n] -> r:f8[<=n, 2]",
  "params": [{"name": "rows", "type": "int", "required": true, "min": 0}],
  "outputs": {"r": {"delivery": "emit"}},
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.pushes/1", "doc": "As rows, in slabs of 3.", "signature": "x:f8[n] -> r:f8[<=n, 2]",
  "params": [{"name": "rows", "type": "int", "required": true, "min": 0}],
  "outputs": {"r": {"delivery": "push", "slab": "3"}},
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.overbound/1", "doc": "Gives one more than it promises.", "signature": "x:f8[n] -> y:f8[<=n]",
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.hungry/1", "doc": "Takes mib MiB through the host; its manifest guesses 1.", "signature": "x:f8[n] -> y:f8[n]",
  "params": [{"name": "mib", "type": "float", "default": 1, "min": 0},
             {"name": "manner", "type": "string", "default": "pass",
              "choices": ["pass", "hide", "internal", "state", "charge", "leak"]}],
  "memory": {"call_bytes": {"expr": "1048576", "trust": "guess"}, "outside_bytes": {"expr": "0", "trust": "guess"}}},
 {"id": "test.liar/1", "doc": "Promises 1 KiB, takes 64.", "signature": "x:f8[n] -> y:f8[n]",
  "memory": {"call_bytes": {"expr": "1024", "trust": "bound"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.malloc/1", "doc": "Takes mib MiB by malloc and touches it.", "signature": "x:f8[n] -> y:f8[n]",
  "params": [{"name": "mib", "type": "int", "default": 1, "min": 0}],
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "1048576", "trust": "guess"}}},
 {"id": "test.ends/1", "doc": "Ends badly.", "signature": "x:f8[n] -> y:f8[n]",
  "params": [{"name": "how", "type": "string", "required": true,
              "choices": ["throw", "throw_int", "bad_alloc", "abort", "segfault", "loop", "status", "positive"]}],
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "unknown"}}},
 {"id": "test.forgets/1", "doc": "Never trims.", "signature": "x:f8[n] -> y:f8[<=n]",
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.state/1", "doc": "Adds a number kept in a state.", "signature": "x:f8[n] -> y:f8[n]",
  "params": [{"name": "add", "type": "float[]", "default": [1, 2], "min_items": 1},
             {"name": "names", "type": "string[]", "default": []}],
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "state_bytes": {"expr": "64", "trust": "exact"},
             "outside_bytes": {"expr": "0", "trust": "exact"}}, "flags": ["state_local"]},
 {"id": "test.infers/1", "doc": "Rows by the plugin's own account.", "signature": "x:f8[n], w:f8[k] -> r:f8[?, 2]",
  "params": [{"name": "rows", "type": "int", "required": true, "min": 0}],
  "memory": {"call_bytes": {"expr": "callback"}, "outside_bytes": {"expr": "0", "trust": "exact"}}},
 {"id": "test.total/1", "doc": "The sum of all, times the sum of w.", "signature": "x:f8[n], w:f8[k] -> s:f8[]",
  "combine": {"partial": "sum:f8[1]"},
  "memory": {"call_bytes": {"expr": "0", "trust": "exact"}, "outside_bytes": {"expr": "0", "trust": "exact"}}}
]})json");

namespace {

double value(const cuboid_view* v, int64_t i) {
  double result;
  std::memcpy(&result, static_cast<const char*>(v->data) + i * v->stride_bytes[0], sizeof result);
  return result;
}
void put(const cuboid_view* v, int64_t i, double x) {
  std::memcpy(static_cast<char*>(v->data) + i * v->stride_bytes[0], &x, sizeof x);
}

cuboid_status twice(void*, cuboid_call* c) {
  const cuboid_view *x = c->in[0], *y = c->out[0];
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    const char* from = static_cast<const char*>(x->data) + i * x->stride_bytes[0];
    char* to = static_cast<char*>(y->data) + i * y->stride_bytes[0];
    if (x->dtype.kind == 'f') {
      double v;
      std::memcpy(&v, from, sizeof v);
      v *= 2;
      std::memcpy(to, &v, sizeof v);
    } else {
      int32_t v;
      std::memcpy(&v, from, sizeof v);
      v *= 2;
      std::memcpy(to, &v, sizeof v);
    }
  }
  return CUBOID_OK;
}

// Reads every element of the halo it was promised, through a scratch copy.
cuboid_status window(void*, cuboid_call* c) {
  const cuboid_view *x = c->in[0], *s = c->out[0];
  const int64_t radius = c->param[0]->u.i;
  void* scratch = nullptr;
  const uint64_t bytes = 8 * static_cast<uint64_t>(x->shape[0] * x->inner_shape[1]);
  if (const cuboid_status status = c->host->scratch(c, bytes, 0, &scratch)) return status;
  double* rows = static_cast<double*>(scratch);  // sums along x, of every row
  const auto at = [&](int64_t i, int64_t j) {
    double v;
    std::memcpy(&v, static_cast<const char*>(x->data) + i * x->stride_bytes[0] + j * x->stride_bytes[1], sizeof v);
    return v;
  };
  const int64_t wide = x->inner_shape[1];
  for (int64_t i = 0; i < x->shape[0]; ++i)
    for (int64_t j = 0; j < wide; ++j) {
      double sum = 0;
      for (int64_t d = -radius; d <= radius; ++d) {
        const int64_t k = x->inner_origin[1] + j + d;
        if (k >= 0 && k < x->shape[1]) sum += at(i, k);
      }
      rows[i * wide + j] = sum;
    }
  for (int64_t i = 0; i < x->inner_shape[0]; ++i)
    for (int64_t j = 0; j < wide; ++j) {
      double sum = 0;
      for (int64_t d = -radius; d <= radius; ++d) {
        const int64_t k = x->inner_origin[0] + i + d;
        if (k >= 0 && k < x->shape[0]) sum += rows[k * wide + j];
      }
      std::memcpy(static_cast<char*>(s->data) + i * s->stride_bytes[0] + j * s->stride_bytes[1], &sum, sizeof sum);
    }
  return CUBOID_OK;
}

cuboid_status above(void*, cuboid_call* c) {
  const cuboid_view* x = c->in[0];
  int64_t n = 0;
  for (int64_t i = 0; i < x->shape[0]; ++i) n += value(x, i) > c->param[0]->u.f;
  if (n > c->out[0]->shape[0]) return c->host->trim(c, 0, &n);
  n = 0;
  for (int64_t i = 0; i < x->shape[0]; ++i)
    if (value(x, i) > c->param[0]->u.f) put(c->out[0], n++, value(x, i));
  return c->host->trim(c, 0, &n);
}

void fill_rows(const cuboid_view* v, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < 2; ++j) {
      const double x = static_cast<double>(10 * i + j);
      std::memcpy(static_cast<char*>(v->data) + i * v->stride_bytes[0] + j * v->stride_bytes[1], &x, sizeof x);
    }
}

cuboid_status rows(void*, cuboid_call* c) {
  const int64_t shape[2] = {c->param[0]->u.i, 2};
  const cuboid_view* view = c->out[0];
  if (shape[0] > view->shape[0])
    if (const cuboid_status status = c->host->grow(c, 0, shape, &view)) return status;
  fill_rows(view, shape[0]);
  return c->host->trim(c, 0, shape);
}

std::atomic<int> calls_under_way{0};

cuboid_status under_way(void*, cuboid_call* c) {
  ++calls_under_way;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto* y = static_cast<double*>(c->out[0]->data);
  for (int64_t i = 0; i < c->out[0]->shape[0]; ++i) y[i] = calls_under_way;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  --calls_under_way;
  return CUBOID_OK;
}

cuboid_status emits(void*, cuboid_call* c) {
  if (c->out[0]->data) return c->host->fail(c, CUBOID_E_INTERNAL, 0, "there is a buffer before emit");
  const int64_t shape[2] = {c->param[0]->u.i, 2};
  const cuboid_view* view = nullptr;
  if (const cuboid_status status = c->host->emit(c, 0, shape, &view)) return status;
  if (view != c->out[0] || view->shape[0] != shape[0]) return CUBOID_E_INTERNAL;
  fill_rows(view, shape[0]);
  return CUBOID_OK;
}

// Slabs of at most three rows, stored backwards in memory: a negative stride.
cuboid_status pushes(void*, cuboid_call* c) {
  for (int64_t first = 0; first < c->param[0]->u.i; first += 3) {
    const int64_t count = c->param[0]->u.i - first < 3 ? c->param[0]->u.i - first : 3;
    double slab[6];
    const int64_t shape[2] = {count, 2}, strides[2] = {-16, 8};
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < 2; ++j) slab[(2 - i) * 2 + j] = static_cast<double>(10 * (first + i) + j);
    cuboid_view view{};
    view.size = sizeof view;
    view.rank = 2;
    view.dtype = {'f', 0, 8};
    view.alignment = 8;
    view.data = slab + 4;
    view.shape = shape;
    view.stride_bytes = strides;
    if (const cuboid_status status = c->host->push(c, 0, &view)) return status;
  }
  return CUBOID_OK;
}

cuboid_status overbound(void*, cuboid_call* c) {
  const int64_t more = c->in[0]->shape[0] + 1;
  return c->host->trim(c, 0, &more);
}

cuboid_status hungry(void*, cuboid_call* c) {
  const uint64_t bytes = static_cast<uint64_t>(c->param[0]->u.f * 1048576);
  const char* manner = c->param[1]->u.s;
  if (std::strcmp(manner, "state") == 0)
    return c->host->fail(c, CUBOID_E_BUDGET, bytes, "this block has too many objects");
  if (std::strcmp(manner, "charge") == 0) {
    if (const cuboid_status status = c->host->charge(c, static_cast<int64_t>(bytes))) return status;
    if (const cuboid_status status = c->host->charge(c, -static_cast<int64_t>(bytes))) return status;
    return twice(nullptr, c);
  }
  void* memory = nullptr;
  const cuboid_status status = c->host->acquire(c, bytes, 128, "catalogue", &memory);
  if (status && std::strcmp(manner, "internal") == 0) return CUBOID_E_INTERNAL;
  if (status && std::strcmp(manner, "hide") != 0) return status;
  if (memory) std::memset(memory, 1, bytes);
  if (reinterpret_cast<uintptr_t>(memory) % 128 != 0) return CUBOID_E_INTERNAL;
  if (std::strcmp(manner, "leak") != 0) c->host->release(c, memory);
  return twice(nullptr, c);
}

cuboid_status liar(void*, cuboid_call* c) {
  void* memory = nullptr;
  if (const cuboid_status status = c->host->scratch(c, 65536, 0, &memory)) return status;
  return twice(nullptr, c);
}

cuboid_status mallocs(void*, cuboid_call* c) {
  const size_t bytes = static_cast<size_t>(c->param[0]->u.i) << 20;
  volatile char* memory = static_cast<volatile char*>(std::malloc(bytes));
  if (!memory) return c->host->fail(c, CUBOID_E_BUDGET, 0, "malloc gave nothing");
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
  std::free(const_cast<char*>(memory));
  return twice(nullptr, c);
}

cuboid_status ends(void*, cuboid_call* c) {
  const char* how = c->param[0]->u.s;
  if (std::strcmp(how, "throw") == 0) throw std::runtime_error("boom");
  if (std::strcmp(how, "throw_int") == 0) throw 42;
  if (std::strcmp(how, "bad_alloc") == 0) throw std::bad_alloc();
  if (std::strcmp(how, "abort") == 0) std::abort();
  if (std::strcmp(how, "segfault") == 0) *reinterpret_cast<volatile int*>(static_cast<uintptr_t>(8)) = 1;
  if (std::strcmp(how, "status") == 0) return c->host->fail(c, CUBOID_E_NUMERIC, 0, "no convergence\nafter 7 steps");
  if (std::strcmp(how, "positive") == 0) return 3;
  for (volatile int forever = 1; forever;) {
  }
  return CUBOID_OK;
}

cuboid_status forgets(void*, cuboid_call*) { return CUBOID_OK; }

cuboid_status state_open(cuboid_call* c, void** state) {
  if (c->n_in != 0 || c->n_out != 0) return CUBOID_E_INTERNAL;
  if (const cuboid_status status = c->host->acquire(c, sizeof(double), 0, "state", state)) return status;
  double sum = 0;
  for (uint64_t i = 0; i < c->param[0]->count; ++i) sum += c->param[0]->u.fv[i];
  for (uint64_t i = 0; i < c->param[1]->count; ++i) sum += static_cast<double>(std::strlen(c->param[1]->u.sv[i]));
  *static_cast<double*>(*state) = sum;
  return CUBOID_OK;
}
void state_close(cuboid_call* c, void* state) { c->host->release(c, state); }
cuboid_status state_run(void* state, cuboid_call* c) {
  for (int64_t i = 0; i < c->in[0]->shape[0]; ++i) put(c->out[0], i, value(c->in[0], i) + *static_cast<double*>(state));
  return CUBOID_OK;
}

cuboid_status total_init(void*, cuboid_call*, const cuboid_view* const* partial) {
  put(partial[0], 0, 0);
  return CUBOID_OK;
}
cuboid_status total_accumulate(void*, cuboid_call* c, const cuboid_view* const* partial) {
  double weight = 0;
  for (int64_t i = 0; i < c->in[1]->shape[0]; ++i) weight += value(c->in[1], i);
  for (int64_t i = 0; i < c->in[0]->shape[0]; ++i)
    put(partial[0], 0, value(partial[0], 0) + weight * value(c->in[0], i));
  return CUBOID_OK;
}
cuboid_status total_merge(void*, cuboid_call*, const cuboid_view* const* into, const cuboid_view* const* from) {
  put(into[0], 0, value(into[0], 0) + value(from[0], 0));
  return CUBOID_OK;
}
cuboid_status total_finalize(void*, cuboid_call* c, const cuboid_view* const* partial) {
  const double sum = value(partial[0], 0);
  std::memcpy(c->out[0]->data, &sum, sizeof sum);
  return CUBOID_OK;
}

// At most as many rows as n and k together, or, above 1000, a guess of 1000.
cuboid_status infer_rows(const cuboid_ask* ask, cuboid_answer* answer) {
  if (ask->n_in != 2 || ask->in[0]->dtype.kind != 'f') return CUBOID_E_INTERNAL;
  if (ask->param[0]->u.i == 13) {
    answer->why = "thirteen rows are not for us";
    return CUBOID_E_PARAM;
  }
  const int64_t rows = ask->in[0]->shape[0] + ask->in[1]->shape[0];
  cuboid_out_fact* out = answer->out[0];
  out->rank = 2;
  out->dtype = {'f', 0, 8};
  out->shape_trust = rows > 1000 ? CUBOID_GUESS : CUBOID_BOUND;
  out->max_shape[0] = rows > 1000 ? 1000 : rows;
  out->max_shape[1] = ask->param[0]->u.i == 14 ? 3 : 2;
  answer->call_bytes = 64;
  answer->call_trust = CUBOID_BOUND;
  answer->state_trust = answer->outside_trust = CUBOID_EXACT;
  return CUBOID_OK;
}

using Run = cuboid_status (*)(void*, cuboid_call*);
constexpr cuboid_fn make(const char* id, uint32_t n_param, Run run, uint32_t flags = 0) {
  return {sizeof(cuboid_fn), flags,   id,      1,   1,       n_param, 0,       nullptr,
          nullptr,           nullptr, nullptr, run, nullptr, nullptr, nullptr, nullptr};
}
constexpr uint32_t kSafe = CUBOID_F_PURE | CUBOID_F_REENTRANT;
constexpr cuboid_fn kFunctions[] = {
    make("test.twice/1", 0, twice, kSafe),
    make("test.twice/2", 0, twice, kSafe),
    make("test.window/1", 1, window, kSafe),
    make("test.alone/1", 0, under_way),
    make("test.alone_too/1", 0, under_way),
    make("test.together/1", 0, under_way, CUBOID_F_REENTRANT),
    make("test.above/1", 1, above, kSafe),
    make("test.rows/1", 1, rows),
    make("test.emits/1", 1, emits),
    make("test.pushes/1", 1, pushes),
    make("test.overbound/1", 0, overbound),
    make("test.hungry/1", 2, hungry),
    make("test.liar/1", 0, liar),
    make("test.malloc/1", 1, mallocs),
    make("test.ends/1", 1, ends),
    make("test.forgets/1", 0, forgets),
    {sizeof(cuboid_fn), CUBOID_F_STATE_LOCAL, "test.state/1", 1, 1, 2, 0, nullptr, nullptr, state_open, state_close,
     state_run, nullptr, nullptr, nullptr, nullptr},
    {sizeof(cuboid_fn), 0, "test.infers/1", 2, 1, 1, 0, infer_rows, nullptr, nullptr, nullptr, rows, nullptr, nullptr,
     nullptr, nullptr},
    {sizeof(cuboid_fn), 0, "test.total/1", 2, 1, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, total_init,
     total_accumulate, total_merge, total_finalize},
};
constexpr std::size_t kCount = sizeof kFunctions / sizeof kFunctions[0];

struct Pointers {
  const cuboid_fn* list[kCount];
  constexpr Pointers() : list() {
    for (std::size_t k = 0; k < kCount; ++k) list[k] = &kFunctions[k];
  }
};
constexpr Pointers kPointers;
constexpr cuboid_plugin kPlugin = {sizeof(cuboid_plugin), 0, "behave", "1.2.3", kCount, 0, kPointers.list, nullptr};

}  // namespace

extern "C" CUBOID_EXPORT const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) {
  if (hello->major == CUBOID_MAJOR) return &kPlugin;
  *why = "another major";
  return nullptr;
}
