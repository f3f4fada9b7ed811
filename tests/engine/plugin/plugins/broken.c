/* One plugin in C99 that is built several times, each time wrong in another way (or, with none of the macros, right).
 */
#ifdef BROKEN_NEWER
#define CUBOID_NEEDS_MINOR 7u
#define NEEDS "7"
#else
#define NEEDS "0"
#endif
#include <cuboid/plugin.h>
#include <string.h>

CUBOID_MANIFEST(
    "{\"schema\": 1, \"name\": \"broken\", \"version\": \"1\", \"abi\": {\"major\": 1, \"needs_minor\": " NEEDS
    "},"
    " \"functions\": [{\"id\": \"broken.copy/1\", \"doc\": \"A copy.\", \"signature\": \"x:u1[n] -> y:u1[n]\","
    " \"memory\": {\"call_bytes\": {\"expr\": \"0\", \"trust\": \"exact\"},"
    "              \"outside_bytes\": {\"expr\": \"0\", \"trust\": \"exact\"}}}]}");

#ifdef BROKEN_UNDEFINED
extern int nobody_defines_this(void);
#endif

static cuboid_status run(void* state, cuboid_call* call) {
  const cuboid_view *x = call->in[0], *y = call->out[0];
  int64_t i;
  (void)state;
#ifdef BROKEN_UNDEFINED
  if (nobody_defines_this()) return CUBOID_E_INTERNAL;
#endif
  for (i = 0; i < x->shape[0]; ++i)
    ((char*)y->data)[i * y->stride_bytes[0]] = ((const char*)x->data)[i * x->stride_bytes[0]];
  return CUBOID_OK;
}

#ifdef BROKEN_ID
#define ID "broken.other/1"
#else
#define ID "broken.copy/1"
#endif
#ifdef BROKEN_COUNT
#define INPUTS 2
#else
#define INPUTS 1
#endif

static const cuboid_fn copy = {sizeof(cuboid_fn), 0, ID, INPUTS, 1, 0, 0, 0, 0, 0, 0, run, 0, 0, 0, 0};
static const cuboid_fn* const functions[] = {&copy};
static const cuboid_plugin plugin = {sizeof(cuboid_plugin), CUBOID_NEEDS_MINOR, "broken", "1", 1, 0, functions, 0};

#ifdef BROKEN_SYMBOL
#define cuboid_plugin_v1 cuboid_plugin_v9
CUBOID_EXPORT const cuboid_plugin* cuboid_plugin_v9(const cuboid_hello* hello, const char** why);
#endif

CUBOID_EXPORT const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why) {
#ifdef BROKEN_DECLINES
  *why = "no licence";
  (void)hello;
  return 0;
#else
  (void)why;
  return hello->major == CUBOID_MAJOR ? &plugin : 0;
#endif
}
