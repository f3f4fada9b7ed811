// The C functions behind cuboid_host: each finds its call and stops every exception at the border.
#include <cuboid/plugin.h>

#include "engine/plugin/plugin_call.h"
#include "engine/plugin/plugin_library.h"

namespace cuboid {
namespace {

PluginCall& of(cuboid_call* call) { return *static_cast<PluginCall*>(call->host_data); }

template <class Body>
cuboid_status guarded(cuboid_call* call, Body body) noexcept {
  if (!call) return CUBOID_E_STATE;
  try {
    return body(of(call));
  } catch (...) {
    return CUBOID_E_INTERNAL;
  }
}

// Services without a status: a failure of the engine's own observers must not end a plugin.
template <class Body>
void quietly(cuboid_call* call, Body body) noexcept {
  guarded(call, [&](PluginCall& host) {
    body(host);
    return CUBOID_OK;
  });
}

extern "C" {

const void* host_extension(const char*) { return nullptr; }

cuboid_status host_acquire(cuboid_call* call, uint64_t bytes, uint64_t align, const char* tag, void** out) {
  return guarded(call, [&](PluginCall& host) { return host.acquire(bytes, align, false, tag, out); });
}
void host_release(cuboid_call* call, void* memory) {
  quietly(call, [&](PluginCall& host) { host.release(memory); });
}
cuboid_status host_scratch(cuboid_call* call, uint64_t bytes, uint64_t align, void** out) {
  return guarded(call, [&](PluginCall& host) { return host.acquire(bytes, align, true, nullptr, out); });
}
cuboid_status host_charge(cuboid_call* call, int64_t delta) {
  return guarded(call, [&](PluginCall& host) { return host.charge(delta); });
}
void host_headroom(cuboid_call* call, uint64_t* limit, uint64_t* in_use) {
  quietly(call, [&](PluginCall& host) { host.headroom(limit, in_use); });
}
cuboid_status host_emit(cuboid_call* call, uint32_t k, const int64_t* shape, const cuboid_view** view) {
  return guarded(call, [&](PluginCall& host) { return host.emit(k, shape, view); });
}
cuboid_status host_trim(cuboid_call* call, uint32_t k, const int64_t* actual) {
  return guarded(call, [&](PluginCall& host) { return host.trim(k, actual); });
}
cuboid_status host_grow(cuboid_call* call, uint32_t k, const int64_t* wanted, const cuboid_view** view) {
  return guarded(call, [&](PluginCall& host) { return host.grow(k, wanted, view); });
}
cuboid_status host_push(cuboid_call* call, uint32_t k, const cuboid_view* slab) {
  return guarded(call, [&](PluginCall& host) { return host.push(k, slab); });
}
cuboid_status host_fail(cuboid_call* call, cuboid_status status, uint64_t needed, const char* message) {
  return guarded(call, [&](PluginCall& host) { return host.fail(status, needed, message); });
}
int32_t host_cancelled(cuboid_call* call) {
  return guarded(call, [](PluginCall& host) -> cuboid_status { return host.cancelled(); }) != 0;
}
void host_progress(cuboid_call* call, double fraction) {
  quietly(call, [&](PluginCall& host) { host.progress(fraction); });
}
void host_log(cuboid_call* call, int32_t level, const char* message) {
  quietly(call, [&](PluginCall& host) { host.log(level, message); });
}

// What a body throws belongs to the plugin and passes through.
cuboid_status host_spread(cuboid_call* call, uint64_t n, void* arg, void (*body)(void*, uint64_t, uint32_t)) {
  return call ? of(call).spread(n, arg, body) : CUBOID_E_STATE;
}

}  // extern "C"
}  // namespace

const cuboid_host& host_services() {
  static const cuboid_host services{sizeof(cuboid_host), CUBOID_MINOR,  "cuboid",     "1",         host_extension,
                                    host_acquire,        host_release,  host_scratch, host_charge, host_headroom,
                                    host_emit,           host_trim,     host_grow,    host_push,   host_fail,
                                    host_cancelled,      host_progress, host_log,     host_spread};
  return services;
}

}  // namespace cuboid
