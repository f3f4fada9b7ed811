// test_host.h - a small host for the unit tests of a plugin: calls a function over whole arrays or over blocks, under a
// memory limit, with the n-th request refused, with little room for results. C++17, header-only, no dependency but
// plugin.hpp and the standard library. Not fast, and not the engine: shapes, halos and bytes come from the same
// formulas.
//
//   #include "above.h"                       // the struct that CUBOID_PLUGIN names
//   namespace host = cuboid::test_host;
//   const auto x = host::Array::of<double>({4}, {1, 5, 2, 7});
//   const auto report = host::run<Above>({x}, {{"t", 3.0}});
//   assert(report.status == CUBOID_OK && report.peak <= report.declared && report.leaked == 0);
//   assert(report.out[0].values<double>() == (std::vector<double>{5, 7}));
//   for (int n = 0; n < report.requests; ++n)  // a refusal is a clean status
//     assert(host::run<Above>({x}, {{"t", 3.0}}, host::refusing(n)).status == CUBOID_E_BUDGET);
#ifndef CUBOID_TEST_HOST_H
#define CUBOID_TEST_HOST_H

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "plugin.hpp"

namespace cuboid::test_host {

using Shape = std::vector<std::int64_t>;

inline std::int64_t count(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

// An array in C order.
struct Array {
  cuboid_dtype dtype{};
  Shape shape;
  std::vector<unsigned char> bytes;

  static Array zeros(cuboid_dtype dtype, Shape shape) {
    Array a{dtype, std::move(shape), {}};
    a.bytes.resize(std::size_t(count(a.shape)) * dtype.bytes);
    return a;
  }
  template <class T>
  static Array of(Shape shape, const std::vector<T>& values) {
    Array a = zeros(sdk::dtype_of<T>(), std::move(shape));
    if (std::size_t(count(a.shape)) != values.size()) throw std::invalid_argument("Array: as many values as elements");
    if (!values.empty()) std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
    return a;
  }
  template <class T>
  std::vector<T> values() const {
    if (!sdk::same(dtype, sdk::dtype_of<T>())) throw std::invalid_argument("Array: of another element type");
    std::vector<T> v(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(v.data(), bytes.data(), bytes.size());
    return v;
  }
};

// A parameter's value.
struct Value {
  char kind;
  std::int64_t i = 0;
  double f = 0;
  std::string s;
  std::vector<std::int64_t> iv;
  std::vector<double> fv;
  std::vector<const char*> sv;
  Value(bool v) : kind('b'), i(v), f(v) {}
  Value(int v) : kind('i'), i(v), f(v) {}
  Value(std::int64_t v) : kind('i'), i(v), f(double(v)) {}
  Value(double v) : kind('f'), f(v) {}
  Value(const char* v) : kind('s'), s(v) {}
  Value(std::vector<std::int64_t> v) : kind('I'), iv(std::move(v)) {}
  Value(std::vector<double> v) : kind('F'), fv(std::move(v)) {}
  Value(std::vector<const char*> v) : kind('S'), sv(std::move(v)) {}
};
using Params = std::map<std::string, Value>;

// How inputs and preallocated outputs lie in memory. padded: rows with a gap; reversed: negative strides along every
// axis; sparse: every second element along the last axis.
enum class Layout { contiguous, padded, reversed, sparse };

struct Options {
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();  // bytes of host memory in one call
  std::int64_t refuse = -1;                                         // this request of a call is refused (from 0)
  std::map<std::string, std::int64_t> block;                        // extents of blocks by axis; none: uncut
  std::string boundary;                                             // of the modes; empty: the default
  double boundary_value = 0;
  std::int64_t capacity = -1;  // rows of outputs that depend on data; -1: the manifest's bound
  Layout layout = Layout::contiguous;
  std::uint32_t lanes = 1;
  std::int64_t cancel_at = -1;  // `cancelled` says yes from this question on
};
inline Options refusing(std::int64_t request) {
  Options o;
  o.refuse = request;
  return o;
}
inline Options limited(std::uint64_t bytes) {
  Options o;
  o.limit = bytes;
  return o;
}
inline Options blocks(std::map<std::string, std::int64_t> extents) {
  Options o;
  o.block = std::move(extents);
  return o;
}

struct Report {
  cuboid_status status = CUBOID_OK;
  std::string message;
  std::uint64_t peak = 0;          // largest, over the calls, of what one held
  std::uint64_t declared = 0;      // largest, over the calls, of call_bytes
  std::uint64_t needed_bytes = 0;  // at a refusal
  std::int64_t needed_rows = 0;    // at a result above its capacity
  std::int64_t requests = 0;       // most, over the calls
  std::uint64_t leaked = 0;        // not released when a call, or the state, ended
  bool overrun = false;            // bytes beside memory of the host were written
  std::vector<std::string> log;
  std::vector<Array> out;  // when status is CUBOID_OK
};

namespace detail {

inline constexpr std::size_t kGuard = 64;
inline constexpr unsigned char kCanary = 0xA5;

// Memory between two canaries, aligned to 4096 less the guard so that `data` is aligned to `align`.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t align) : bytes_(bytes), block_(bytes + 2 * kGuard + align, kCanary) {
    auto at = reinterpret_cast<std::uintptr_t>(block_.data()) + kGuard;
    data_ = reinterpret_cast<unsigned char*>((at + align - 1) / align * align);
    std::memset(data_, 0xCD, bytes_);
  }
  unsigned char* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  bool intact() const {
    const auto is_canary = [](unsigned char c) { return c == kCanary; };
    return std::all_of(block_.data(), static_cast<const unsigned char*>(data_), is_canary) &&
           std::all_of(static_cast<const unsigned char*>(data_) + bytes_, block_.data() + block_.size(), is_canary);
  }

 private:
  std::size_t bytes_;
  std::vector<unsigned char> block_;
  unsigned char* data_;
};

// A view with the arrays it points to.
struct OwnedView {
  cuboid_view view{};
  Shape shape, stride, origin, whole, inner_origin, inner_shape;
  std::unique_ptr<Guarded> memory;

  OwnedView(cuboid_dtype dtype, Shape extents, Layout layout) : shape(std::move(extents)) {
    const std::size_t rank = shape.size();
    stride.resize(rank);
    std::int64_t step = dtype.bytes;
    if (layout == Layout::sparse) step *= 2;
    for (std::size_t d = rank; d-- > 0;) {
      stride[d] = step;
      step *= std::max<std::int64_t>(shape[d], 1);
      if (layout == Layout::padded && d + 1 == rank) step += dtype.bytes * 3;
    }
    memory = std::make_unique<Guarded>(count(shape) ? std::size_t(step) : 0, 64);
    unsigned char* data = memory->data();
    if (layout == Layout::reversed && count(shape))
      for (std::size_t d = 0; d < rank; ++d) data += stride[d] * (shape[d] - 1), stride[d] = -stride[d];
    origin.assign(rank, 0), inner_origin.assign(rank, 0);
    whole = inner_shape = shape;
    view.size = sizeof view, view.rank = std::uint16_t(rank), view.dtype = dtype;
    view.alignment = layout == Layout::contiguous ? 64 : dtype.kind == 'c' ? dtype.bytes / 2u : dtype.bytes;
    view.flags = layout == Layout::contiguous ? CUBOID_V_ROWMAJOR : 0;
    view.data = count(shape) ? data : nullptr;
    point();
  }
  void point() {
    view.shape = shape.data(), view.stride_bytes = stride.data(), view.origin = origin.data();
    view.whole = whole.data(), view.inner_origin = inner_origin.data(), view.inner_shape = inner_shape.data();
  }
  unsigned char* at(const Shape& index) const {
    auto* p = static_cast<unsigned char*>(view.data);
    for (std::size_t d = 0; d < index.size(); ++d) p += index[d] * stride[d];
    return p;
  }
};

// Calls `each(index)` for every index below `shape`, in C order.
template <class Each>
void for_each_index(const Shape& shape, Each each) {
  Shape index(shape.size(), 0);
  for (std::int64_t n = count(shape); n > 0; --n) {
    each(const_cast<const Shape&>(index));
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}
inline std::size_t offset(const Shape& index, const Shape& shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return std::size_t(at);
}

// The index that stands for i beyond an axis of `extent` elements, or -1 for the constant.
inline std::int64_t boundary(std::int64_t i, std::int64_t extent, const std::string& mode) {
  if (i >= 0 && i < extent) return i;
  if (mode == "constant") return -1;
  if (mode == "nearest") return i < 0 ? 0 : extent - 1;
  if (mode == "wrap") return ((i % extent) + extent) % extent;
  const std::int64_t period = 2 * extent, r = ((i % period) + period) % period;  // reflect
  return r < extent ? r : period - 1 - r;
}

inline void store_number(unsigned char* to, cuboid_dtype dtype, double value) {
  const auto put = [to](auto typed) { std::memcpy(to, &typed, sizeof typed); };
  const std::string name = std::string(1, char(dtype.kind)) + std::to_string(dtype.bytes);
  if (name == "f8") return put(value);
  if (name == "f4") return put(float(value));
  for (unsigned i = 0; i < dtype.bytes; ++i) to[i] = static_cast<unsigned char>(std::int64_t(value) >> 8 * i);
}

struct Names {
  std::map<std::string, double> values;
  bool operator()(sdk::Text name, double& value) const {
    const auto found = values.find(std::string(name));
    if (found == values.end()) return false;
    value = found->second;
    return true;
  }
  // As docs/plugin-manifest.md says: rounded up, an integer that was only missed by rounding stays one.
  std::int64_t evaluate(sdk::Text formula) const {
    const double v = sdk::detail::Formula<Names>(formula, *this, true).value();
    const double nearest = std::round(v), up = std::fabs(v - nearest) <= 1e-9 * std::fabs(v) ? nearest : std::ceil(v);
    if (!(up >= 0 && up <= 9007199254740992.0)) throw std::invalid_argument("formula: negative, NaN or too large");
    return std::int64_t(up);
  }
};

// One call as the host sees it.
struct Session {
  const Options* options = nullptr;
  Report* report = nullptr;
  cuboid_call call{};
  bool in_state = false;  // open: memory stays
  std::map<void*, std::unique_ptr<Guarded>> memory, scratch;
  std::map<void*, std::unique_ptr<Guarded>>* state_memory = nullptr;
  std::uint64_t used = 0;
  std::int64_t requests = 0;
  std::atomic<std::int64_t> questions{0};
  std::vector<std::unique_ptr<OwnedView>> out;
  std::vector<const cuboid_view*> out_pointers;
  std::vector<Shape> actual;  // by trim or emit; empty: none
  std::vector<std::vector<unsigned char>> pushed;
  std::vector<std::int64_t> pushed_rows, capacity;

  static Session& of(cuboid_call* call) { return *static_cast<Session*>(call->host_data); }

  cuboid_status take(std::uint64_t bytes, std::uint64_t align, bool is_scratch, void** result) {
    *result = nullptr;
    if (align == 0) align = 64;
    if (align > 4096 || (align & (align - 1)))
      return fail(CUBOID_E_INTERNAL, 0, "an alignment that is no power of two, or above 4096");
    const std::uint64_t counted = (bytes + 63) / 64 * 64 + (align > 64 ? align : 0);
    const bool refused = requests++ == options->refuse;
    if (refused || counted < bytes || counted > options->limit - std::min(used, options->limit)) {
      report->needed_bytes = std::max(report->needed_bytes, used + counted);
      return fail(CUBOID_E_BUDGET, 0, "memory refused by the host");
    }
    auto block = std::make_unique<Guarded>(std::size_t(bytes), std::size_t(align));
    *result = block->data();
    sizes[*result] = counted;
    used += counted;
    report->peak = std::max(report->peak, used);
    (is_scratch ? scratch : in_state ? *state_memory : memory)[*result] = std::move(block);
    return CUBOID_OK;
  }
  void give_back(void* p) {
    if (!p) return;
    for (auto* pool : {&memory, state_memory}) {
      const auto found = pool ? pool->find(p) : memory.end();
      if (!pool || found == pool->end()) continue;
      report->overrun = report->overrun || !found->second->intact();
      pool->erase(found);
      used -= std::min(used, sizes[p]);
      return;
    }
    fail(CUBOID_E_INTERNAL, 0, "release of memory that the host does not know");
  }
  cuboid_status fail(cuboid_status status, std::uint64_t needed, const char* text) {
    if (report->status == CUBOID_OK) {  // the first cause counts
      report->status = status;
      if (text) report->message = text;
    }
    report->needed_bytes = std::max(report->needed_bytes, needed);
    return status;
  }
  cuboid_status too_large(std::uint32_t, std::int64_t rows) {
    report->needed_rows = std::max(report->needed_rows, rows);
    return fail(CUBOID_E_BOUND, 0, "a result larger than its capacity");
  }
  std::map<void*, std::uint64_t> sizes;
};

inline const cuboid_host& services() {
  static const cuboid_host host = [] {
    cuboid_host h{};
    h.size = sizeof h, h.minor = CUBOID_MINOR, h.name = "cuboid test host", h.version = "1";
    h.extension = [](const char*) -> const void* { return nullptr; };
    h.acquire = [](cuboid_call* c, std::uint64_t bytes, std::uint64_t align, const char*, void** out) {
      return Session::of(c).take(bytes, align, false, out);
    };
    h.release = [](cuboid_call* c, void* p) { Session::of(c).give_back(p); };
    h.scratch = [](cuboid_call* c, std::uint64_t bytes, std::uint64_t align, void** out) {
      return Session::of(c).take(bytes, align, true, out);
    };
    h.charge = [](cuboid_call*, std::int64_t) -> cuboid_status { return CUBOID_OK; };
    h.headroom = [](cuboid_call* c, std::uint64_t* limit, std::uint64_t* used) {
      if (limit) *limit = Session::of(c).options->limit;
      if (used) *used = Session::of(c).used;
    };
    h.emit = [](cuboid_call* c, std::uint32_t k, const std::int64_t* shape, const cuboid_view** view) -> cuboid_status {
      auto& s = Session::of(c);
      if (shape[0] > s.capacity[k]) return s.too_large(k, shape[0]);
      const auto dtype = s.out[k]->view.dtype;
      s.actual[k].assign(shape, shape + s.out[k]->view.rank);
      s.out[k] = std::make_unique<OwnedView>(dtype, s.actual[k], Layout::contiguous);
      *view = s.out_pointers[k] = &s.out[k]->view;
      return CUBOID_OK;
    };
    h.trim = [](cuboid_call* c, std::uint32_t k, const std::int64_t* actual) -> cuboid_status {
      auto& s = Session::of(c);
      if (actual[0] > s.out[k]->shape[0]) return s.too_large(k, actual[0]);
      s.actual[k].assign(actual, actual + s.out[k]->view.rank);
      return CUBOID_OK;
    };
    h.grow = [](cuboid_call* c, std::uint32_t k, const std::int64_t* wanted,
                const cuboid_view** view) -> cuboid_status {
      auto& s = Session::of(c);
      auto larger = std::make_unique<OwnedView>(s.out[k]->view.dtype, Shape(wanted, wanted + s.out[k]->view.rank),
                                                Layout::contiguous);
      for_each_index(s.out[k]->shape,
                     [&](const Shape& i) { std::memcpy(larger->at(i), s.out[k]->at(i), larger->view.dtype.bytes); });
      s.out[k] = std::move(larger);
      *view = s.out_pointers[k] = &s.out[k]->view;
      return CUBOID_OK;
    };
    h.push = [](cuboid_call* c, std::uint32_t k, const cuboid_view* slab) -> cuboid_status {
      auto& s = Session::of(c);
      const Shape shape(slab->shape, slab->shape + slab->rank);
      for_each_index(shape, [&](const Shape& i) {
        auto* at = static_cast<const unsigned char*>(slab->data);
        for (std::size_t d = 0; d < i.size(); ++d) at += i[d] * slab->stride_bytes[d];
        s.pushed[k].insert(s.pushed[k].end(), at, at + slab->dtype.bytes);
      });
      s.pushed_rows[k] += shape[0];
      return s.pushed_rows[k] > s.capacity[k] ? s.too_large(k, s.pushed_rows[k]) : CUBOID_OK;
    };
    h.fail = [](cuboid_call* c, cuboid_status status, std::uint64_t needed, const char* text) {
      return Session::of(c).fail(status, needed, text);
    };
    h.cancelled = [](cuboid_call* c) -> std::int32_t {
      auto& s = Session::of(c);
      return s.options->cancel_at >= 0 && s.questions++ >= s.options->cancel_at;
    };
    h.progress = [](cuboid_call*, double) {};
    h.log = [](cuboid_call* c, std::int32_t, const char* text) { Session::of(c).report->log.emplace_back(text); };
    h.spread = [](cuboid_call* c, std::uint64_t n, void* arg,
                  void (*body)(void*, std::uint64_t, std::uint32_t)) -> cuboid_status {
      std::atomic<std::uint64_t> next{0};
      std::vector<std::thread> threads;
      const auto work = [&](std::uint32_t lane) {
        for (std::uint64_t i = next++; i < n; i = next++) body(arg, i, lane);
      };
      for (std::uint32_t lane = 1; lane < c->lanes; ++lane) threads.emplace_back(work, lane);
      work(0);
      for (auto& t : threads) t.join();
      return CUBOID_OK;
    };
    return h;
  }();
  return host;
}

// A run of one function: binds names, cuts blocks, calls, joins.
class Runner {
 public:
  Runner(const decl& meta, const cuboid_fn& fn, const std::vector<Array>& in, const Params& params, const Options& o)
      : meta_(meta), fn_(fn), in_(in), options_(o), signature_(sdk::detail::parse_signature(meta.signature_)) {
    bind_params(params);
    bind_inputs();
  }

  Report run() {
    void* state = nullptr;
    {
      Session session;
      prepare(session);
      session.in_state = true;
      if (fn_.open && settle(session, fn_.open(&session.call, &state)) != CUBOID_OK) return std::move(report_);
    }
    if (fn_.run)
      run_blocks(state);
    else
      reduce(state);
    if (fn_.close) {
      Session session;
      prepare(session);
      fn_.close(&session.call, state);
    }
    for (const auto& left : state_memory_) report_.leaked += left.second->size();
    state_memory_.clear();
    if (report_.status == CUBOID_OK) join();
    return std::move(report_);
  }

 private:
  void bind_params(const Params& given) {
    for (const auto& p : given)
      if (meta_.find_param(p.first) < 0) throw std::invalid_argument("no parameter " + p.first);
    for (int i = 0; i < meta_.n_params_; ++i) {
      const sdk::Param& p = meta_.params_[std::size_t(i)];
      const auto found = given.find(std::string(p.name()));
      if (found == given.end() && !p.has_default_)
        throw std::invalid_argument("parameter without a value: " + std::string(p.name()));
      Value v = found != given.end() ? found->second : initial(p);
      if (p.kind() == sdk::Param::kReal && v.kind == 'i') v = Value(v.f);
      if (v.kind != p.kind()) throw std::invalid_argument("parameter of another type: " + std::string(p.name()));
      values_.push_back(std::move(v));
      if (p.numeric()) names_.values[std::string(p.name())] = values_.back().f;
    }
    for (const Value& v : values_) {
      cuboid_value c{};
      c.size = sizeof c, c.kind = std::uint32_t(v.kind), c.count = 1;
      if (v.kind == 'b' || v.kind == 'i') c.u.i = v.i;
      if (v.kind == 'f') c.u.f = v.f;
      if (v.kind == 's') c.u.s = v.s.c_str(), c.count = v.s.size();
      if (v.kind == 'I') c.u.iv = v.iv.data(), c.count = v.iv.size();
      if (v.kind == 'F') c.u.fv = v.fv.data(), c.count = v.fv.size();
      if (v.kind == 'S') c.u.sv = v.sv.data(), c.count = v.sv.size();
      c_values_.push_back(c);
    }
    for (const cuboid_value& c : c_values_) value_pointers_.push_back(&c);
  }
  static Value initial(const sdk::Param& p) {
    switch (p.kind()) {
      case sdk::Param::kBool:
        return Value(p.whole_ != 0);
      case sdk::Param::kInt:
        return Value(p.whole_);
      case sdk::Param::kReal:
        return Value(p.number_);
      case sdk::Param::kText:
        return Value(p.text_);
      default:
        break;
    }
    throw std::invalid_argument("give the list explicitly: " + std::string(p.name()));
  }

  void bind_inputs() {
    if (in_.size() != signature_.n_in) throw std::invalid_argument("another number of inputs than the signature's");
    for (std::uint32_t k = 0; k < signature_.n_in; ++k) {
      const auto& a = signature_.arrays[k];
      if (in_[k].shape.size() != a.rank) throw std::invalid_argument("an input of another rank than the signature's");
      if (sdk::detail::type_index(a.type) < 0) types_[std::string(a.type)] = in_[k].dtype;
      for (std::uint16_t d = 0; d < a.rank; ++d) {
        const std::string axis(a.extent[d]);
        if (!sdk::detail::is_identifier(axis)) continue;
        if (extents_.count(axis) && extents_[axis] != in_[k].shape[d])
          throw std::invalid_argument("two extents of " + axis);
        if (!extents_.count(axis)) axes_.push_back(axis);
        extents_[axis] = in_[k].shape[d];
      }
    }
    for (const auto& t : types_) names_.values["size_" + t.first] = t.second.bytes;
    for (const auto& axis : axes_) names_.values["halo_" + axis] = 0;
    for (int i = 0; i < meta_.n_halo_; ++i) {
      const auto& halo = meta_.halo_[std::size_t(i)];
      halo_[halo.name] = names_.evaluate(halo.text);
      names_.values[std::string("halo_") + halo.name] = double(halo_[halo.name]);
    }
    const std::string modes = meta_.modes_;
    mode_ = options_.boundary.empty() ? modes.substr(0, modes.find('|')) : options_.boundary;
  }

  void prepare(Session& session) {
    session.options = &options_, session.report = &report_, session.state_memory = &state_memory_;
    cuboid_call& c = session.call;
    c.size = sizeof c, c.lanes = options_.lanes, c.host = &services(), c.host_data = &session;
    c.n_param = std::uint32_t(value_pointers_.size()), c.param = value_pointers_.data();
  }
  // After a call: what it left behind.
  cuboid_status settle(Session& session, cuboid_status status) {
    if (status != CUBOID_OK) session.fail(status, 0, "the function failed without saying why");
    if (status == CUBOID_OK && report_.status != CUBOID_OK) status = report_.status;  // a refusal was ignored
    for (const auto& left : session.memory) report_.leaked += left.second->size();
    for (auto* pool : {&session.memory, &session.scratch})
      for (const auto& m : *pool) report_.overrun = report_.overrun || !m.second->intact();
    for (const auto& o : session.out) report_.overrun = report_.overrun || !o->memory->intact();
    report_.requests = std::max(report_.requests, session.requests);
    return status;
  }

  using Box = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;  // axis -> [from, to)

  // Calls `each(box)` for every block in C order of the axes.
  template <class Each>
  void for_each_block(Each each) {
    Shape counts, sizes;
    for (const auto& axis : axes_) {
      const auto cut = options_.block.find(axis);
      sizes.push_back(cut == options_.block.end() ? std::max<std::int64_t>(extents_[axis], 1) : cut->second);
      counts.push_back((extents_[axis] + sizes.back() - 1) / sizes.back());
    }
    for_each_index(counts, [&](const Shape& index) {
      Box box;
      for (std::size_t d = 0; d < axes_.size(); ++d)
        box[axes_[d]] = {index[d] * sizes[d], std::min((index[d] + 1) * sizes[d], extents_[axes_[d]])};
      if (report_.status == CUBOID_OK) each(box);
    });
  }

  std::unique_ptr<OwnedView> input(std::uint32_t k, const Box& box) {
    const auto& a = signature_.arrays[k];
    const Array& array = in_[k];
    Shape from, shape, inner, inner_shape;
    for (std::uint16_t d = 0; d < a.rank; ++d) {
      const auto range = box.find(std::string(a.extent[d]));
      std::int64_t lo = range == box.end() ? 0 : range->second.first;
      std::int64_t hi = range == box.end() ? array.shape[d] : range->second.second;
      const auto halo = halo_.find(std::string(a.extent[d]));
      const std::int64_t h = halo == halo_.end() ? 0 : halo->second;
      const std::int64_t begin = mode_ == "clip" ? std::max<std::int64_t>(lo - h, 0) : lo - h;
      const std::int64_t end = mode_ == "clip" ? std::min(hi + h, array.shape[d]) : hi + h;
      from.push_back(begin), shape.push_back(end - begin), inner.push_back(lo - begin), inner_shape.push_back(hi - lo);
    }
    auto v = std::make_unique<OwnedView>(array.dtype, shape, options_.layout);
    v->origin = from, v->whole = array.shape, v->inner_origin = inner, v->inner_shape = inner_shape;
    v->view.flags |= CUBOID_V_READONLY;
    v->point();
    for_each_index(shape, [&](const Shape& i) {
      Shape source(i);
      bool outside = false;
      for (std::size_t d = 0; d < i.size(); ++d) {
        source[d] = boundary(from[d] + i[d], array.shape[d], mode_);
        outside = outside || source[d] < 0;
      }
      if (outside)
        store_number(v->at(i), array.dtype, options_.boundary_value);
      else
        std::memcpy(v->at(i), array.bytes.data() + offset(source, array.shape) * array.dtype.bytes, array.dtype.bytes);
    });
    return v;
  }

  cuboid_dtype output_type(std::uint32_t k) {
    const sdk::Text type = signature_.out(k).type;
    const int index = sdk::detail::type_index(type);
    return index >= 0 ? sdk::detail::kTypes[index].dtype : types_[std::string(type)];
  }
  Shape output_shape(const sdk::detail::ArrayDecl& a, const Names& names) {
    Shape shape;
    for (std::uint16_t d = 0; d < a.rank; ++d) shape.push_back(names.evaluate(a.extent[d]));
    if (a.kind != sdk::detail::Extent::exact && options_.capacity >= 0)
      shape[0] = std::min(shape[0], options_.capacity);
    return shape;
  }
  Names block_names(const Box& box) {
    Names names = names_;
    for (const auto& range : box) names.values[range.first] = double(range.second.second - range.second.first);
    return names;
  }
  void declare(const Names& names) {
    const sdk::Text formula = meta_.call_.formula;
    if (formula != "unknown" && formula != "callback")
      report_.declared = std::max(report_.declared, std::uint64_t(names.evaluate(formula)));
  }

  void make_outputs(Session& session, const Names& names, const Box& box) {
    for (std::uint32_t k = 0; k < signature_.n_out; ++k) {
      const auto& a = signature_.out(k);
      const Shape shape = output_shape(a, names);
      auto v = std::make_unique<OwnedView>(output_type(k), shape, options_.layout);
      for (std::uint16_t d = 0; d < a.rank; ++d) {
        const auto range = box.find(std::string(a.extent[d]));
        if (range != box.end()) v->origin[d] = range->second.first, v->whole[d] = extents_[range->first];
      }
      session.capacity.push_back(shape.empty() ? 1 : shape[0]);
      session.out.push_back(std::move(v));
    }
    for (const auto& v : session.out) session.out_pointers.push_back(&v->view);
    session.actual.resize(signature_.n_out), session.pushed.resize(signature_.n_out);
    session.pushed_rows.resize(signature_.n_out);
    session.call.n_out = signature_.n_out, session.call.out = session.out_pointers.data();
  }
  void make_inputs(Session& session, const Box& box, std::vector<std::unique_ptr<OwnedView>>& views,
                   std::vector<const cuboid_view*>& pointers) {
    for (std::uint32_t k = 0; k < signature_.n_in; ++k) views.push_back(input(k, box));
    for (const auto& v : views) pointers.push_back(&v->view);
    session.call.n_in = signature_.n_in, session.call.in = pointers.data();
  }

  struct Piece {
    Box box;
    std::vector<Array> out;
  };

  void run_blocks(void* state) {
    for_each_block([&](const Box& box) {
      Session session;
      prepare(session);
      const Names names = block_names(box);
      declare(names);
      std::vector<std::unique_ptr<OwnedView>> views;
      std::vector<const cuboid_view*> pointers;
      make_inputs(session, box, views, pointers);
      make_outputs(session, names, box);
      if (settle(session, fn_.run(state, &session.call)) == CUBOID_OK) pieces_.push_back({box, collect(session)});
    });
  }

  // What one call produced, as arrays of its actual shape.
  std::vector<Array> collect(Session& session) {
    std::vector<Array> arrays;
    for (std::uint32_t k = 0; k < signature_.n_out; ++k) {
      const OwnedView& v = *session.out[k];
      Shape shape = session.actual[k].empty() ? v.shape : session.actual[k];
      if (!session.pushed[k].empty() || session.pushed_rows[k]) shape[0] = session.pushed_rows[k];
      const bool pushed = session.pushed_rows[k] > 0;
      if (signature_.out(k).kind != sdk::detail::Extent::exact && !pushed && session.actual[k].empty()) {
        if (is_pushed(k))
          shape[0] = 0;
        else
          session.fail(CUBOID_E_STATE, 0, "an output that depends on data was neither trimmed, emitted nor pushed");
      }
      Array array = Array::zeros(v.view.dtype, shape);
      if (pushed)
        array.bytes = session.pushed[k];
      else
        for_each_index(shape, [&](const Shape& i) {
          std::memcpy(array.bytes.data() + offset(i, shape) * array.dtype.bytes, v.at(i), array.dtype.bytes);
        });
      arrays.push_back(std::move(array));
    }
    return arrays;
  }
  bool is_pushed(std::uint32_t k) const {
    for (int i = 0; i < meta_.n_outputs_; ++i)
      if (signature_.out(k).name == meta_.outputs_[std::size_t(i)].name)
        return meta_.outputs_[std::size_t(i)].delivery == sdk::Delivery::push;
    return false;
  }

  std::vector<std::unique_ptr<OwnedView>> make_partial() {
    const auto partial = sdk::detail::parse_signature(meta_.partial_, true);
    std::vector<std::unique_ptr<OwnedView>> views;
    for (std::uint32_t k = 0; k < partial.n_out; ++k)
      views.push_back(
          std::make_unique<OwnedView>(sdk::detail::kTypes[sdk::detail::type_index(partial.out(k).type)].dtype,
                                      output_shape(partial.out(k), names_), Layout::contiguous));
    return views;
  }
  static std::vector<const cuboid_view*> pointers_to(const std::vector<std::unique_ptr<OwnedView>>& views) {
    std::vector<const cuboid_view*> pointers;
    for (const auto& v : views) pointers.push_back(&v->view);
    return pointers;
  }

  // init and accumulate per block, then merges from left to right, then finalize.
  void reduce(void* state) {
    std::vector<std::unique_ptr<OwnedView>> total;
    const auto step = [&](auto&& body) {
      Session session;
      prepare(session);
      if (report_.status == CUBOID_OK) settle(session, body(session));
    };
    for_each_block([&](const Box& box) {
      declare(block_names(box));
      auto partial = make_partial();
      const auto into = pointers_to(partial);
      step([&](Session& s) { return fn_.init(state, &s.call, into.data()); });
      step([&](Session& s) {
        std::vector<std::unique_ptr<OwnedView>> views;
        std::vector<const cuboid_view*> pointers;
        make_inputs(s, box, views, pointers);
        return fn_.accumulate(state, &s.call, into.data());
      });
      if (total.empty())
        total = std::move(partial);
      else
        step([&](Session& s) { return fn_.merge(state, &s.call, pointers_to(total).data(), into.data()); });
    });
    if (total.empty()) {
      total = make_partial();
      step([&](Session& s) { return fn_.init(state, &s.call, pointers_to(total).data()); });
    }
    step([&](Session& s) {
      Box whole;
      for (const auto& axis : axes_) whole[axis] = {0, extents_[axis]};
      make_outputs(s, block_names(whole), {});
      const cuboid_status status = fn_.finalize(state, &s.call, pointers_to(total).data());
      if (status == CUBOID_OK) pieces_.push_back({{}, collect(s)});
      return status;
    });
  }

  // Blocks side by side along tiled axes, one after the other along a first extent that depends on data.
  void join() {
    Box whole;
    for (const auto& axis : axes_) whole[axis] = {0, extents_[axis]};
    for (std::uint32_t k = 0; k < signature_.n_out; ++k) {
      const auto& a = signature_.out(k);
      const bool grows = a.kind != sdk::detail::Extent::exact;
      Shape shape;
      for (std::uint16_t d = 0; d < a.rank; ++d)
        shape.push_back(grows && d == 0 ? 0 : block_names(whole).evaluate(a.extent[d]));
      for (const Piece& piece : pieces_)
        if (grows) shape[0] += piece.out[k].shape[0];
      Array array = Array::zeros(output_type(k), shape);
      std::int64_t row = 0;
      for (const Piece& piece : pieces_) {
        Shape at(a.rank, 0);
        for (std::uint16_t d = 0; d < a.rank; ++d) {
          const auto range = piece.box.find(std::string(a.extent[d]));
          at[d] = grows && d == 0 ? row : range == piece.box.end() ? 0 : range->second.first;
        }
        for_each_index(piece.out[k].shape, [&](const Shape& i) {
          Shape to(i);
          for (std::size_t d = 0; d < i.size(); ++d) to[d] += at[d];
          std::memcpy(array.bytes.data() + offset(to, shape) * array.dtype.bytes,
                      piece.out[k].bytes.data() + offset(i, piece.out[k].shape) * array.dtype.bytes, array.dtype.bytes);
        });
        if (grows) row += piece.out[k].shape[0];
      }
      report_.out.push_back(std::move(array));
    }
  }

  const decl& meta_;
  const cuboid_fn& fn_;
  const std::vector<Array>& in_;
  const Options& options_;
  const sdk::detail::Signature signature_;
  Report report_;
  std::deque<Value> values_;
  std::deque<cuboid_value> c_values_;
  std::vector<const cuboid_value*> value_pointers_;
  std::map<std::string, cuboid_dtype> types_;
  std::map<std::string, std::int64_t> extents_, halo_;
  std::vector<std::string> axes_;
  Names names_;
  std::string mode_;
  std::map<void*, std::unique_ptr<Guarded>> state_memory_;
  std::vector<Piece> pieces_;
};

}  // namespace detail

// Calls a function that was declared with plugin.hpp. Throws std::invalid_argument where the test itself is wrong.
template <class F>
Report run(const std::vector<Array>& in, const Params& params = {}, const Options& options = {}) {
  static constexpr cuboid_fn fn = sdk::detail::make_function<F>();
  return detail::Runner(F::meta, fn, in, params, options).run();
}
// Calls a function from anywhere (written in C, say), with a declaration that says what its manifest says.
inline Report run(const decl& meta, const cuboid_fn& fn, const std::vector<Array>& in, const Params& params = {},
                  const Options& options = {}) {
  return detail::Runner(meta, fn, in, params, options).run();
}

}  // namespace cuboid::test_host

#endif  // CUBOID_TEST_HOST_H
