/* plugin.h - the plugin ABI of Cuboid, major 1. C99, C11, C++17, C++20; no dependencies; may be vendored as one file.
 *
 * GROWTH RULE. Within one major version:
 *  - every struct that begins with `size` holds its own byte size, set by whoever made it, and is only ever appended
 *    to; such structs are passed by pointer and in arrays of pointers, never in arrays by value;
 *  - a reader touches a member beyond those of minor 0 only where CUBOID_HAS says it is there;
 *  - members, numbers and meanings that were released never change; unused members (`reserved`) are written as 0 and
 *    not read; structs without `size` (cuboid_dtype, cuboid_blob_head) are frozen;
 *  - an author states the oldest minor the plugin can run on (CUBOID_NEEDS_MINOR); no header stamps it.
 *
 * OWNERSHIP. Nothing allocated on one side is freed on the other. Every pointer handed to a function dies when that
 * function returns, unless its comment says otherwise. Text is UTF-8, ends with NUL, and is copied by the host at once.
 *
 * BORDER. No function here may throw, longjmp, exit, or change the locale, signal handlers or the floating-point
 * environment of its caller.
 *
 * COMMENT TAGS on function pointers: [thread] who may call it when, [state] what must have happened before,
 * [alloc] whether it may allocate. Sizes are bytes, extents are elements, strides are bytes. */
#ifndef CUBOID_PLUGIN_H
#define CUBOID_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUBOID_MAJOR 1u
#define CUBOID_MINOR 0u /* the newest minor that this header describes */
#ifndef CUBOID_NEEDS_MINOR
#define CUBOID_NEEDS_MINOR 0u /* the oldest minor the plugin can run on: defined by its author */
#endif
#define CUBOID_MAX_RANK 16 /* axes of one view; an array with more is refused at planning */

#if defined(_WIN32)
#define CUBOID_EXPORT __declspec(dllexport)
#else
#define CUBOID_EXPORT __attribute__((visibility("default")))
#endif

/* True where the struct that `p` points to is long enough to hold `member` of `type`. */
#define CUBOID_HAS(p, type, member) ((p)->size >= offsetof(type, member) + sizeof(((const type*)0)->member))

/* ---- Status: frozen numbers. An unknown negative number means "failed"; positive numbers are never used. ----------
 */
typedef int32_t cuboid_status;
enum {
  CUBOID_OK = 0,
  CUBOID_E_DTYPE = -1,       /* an element type that the function does not take */
  CUBOID_E_SHAPE = -2,       /* a shape that the function does not take */
  CUBOID_E_PARAM = -3,       /* a parameter's value */
  CUBOID_E_UNSUPPORTED = -4, /* a service or a case that is not there */
  CUBOID_E_BUDGET = -5,      /* memory was refused; the host has recorded how much was needed */
  CUBOID_E_BOUND = -6,       /* a result larger than its capacity; the host has recorded the extent needed */
  CUBOID_E_CANCELLED = -7,   /* stopped because `cancelled` said so */
  CUBOID_E_NUMERIC = -8,     /* no convergence, a singular matrix, ... */
  CUBOID_E_STATE = -9,       /* called in the wrong state */
  CUBOID_E_INTERNAL = -10,   /* a fault in the plugin itself */
  CUBOID_E_THROWN = -11      /* an exception reached the border of the plugin */
};

/* ---- Data ---------------------------------------------------------------------------------------------------------
 */

/* An element type: kind 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'c' complex; native byte order. Frozen. */
typedef struct cuboid_dtype {
  uint8_t kind;
  uint8_t reserved;
  uint16_t bytes; /* of one element: b1 i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 */
} cuboid_dtype;

/* A block of a larger array, as a strided window on memory of the host. `data` points to the element with index 0 along
 * every axis; strides may be zero or negative. Every element is aligned as its type needs (a complex one as its part);
 * more than that only `alignment` promises.
 * The block's INTERIOR is the part that this call answers for; around it may lie a halo. In views that the host makes
 * every pointer below is set and has `rank` entries (with rank 0 they may be NULL); in a view that a plugin passes to
 * `push` the last four may be NULL. Element i of the view has index origin + i in the whole array: below 0 or beyond
 * `whole` where the host padded the halo by a boundary mode. */
typedef struct cuboid_view {
  uint32_t size;
  uint16_t rank;
  uint16_t flags; /* CUBOID_V_* */
  cuboid_dtype dtype;
  uint32_t alignment; /* of `data`, bytes, a power of two */
  void* data;         /* NULL before `emit`, and where the view has no elements */
  const int64_t* shape;
  const int64_t* stride_bytes;
  const int64_t* origin;       /* index of element 0 in the whole array */
  const int64_t* whole;        /* extents of the whole array; of an output that depends on data: of its capacity */
  const int64_t* inner_origin; /* first interior element, as an index into this view (0 without halo) */
  const int64_t* inner_shape;  /* extents of the interior: what axis names in the manifest's formulas stand for */
} cuboid_view;
enum {
  CUBOID_V_READONLY = 1,
  CUBOID_V_ROWMAJOR = 2,      /* C-contiguous */
  CUBOID_V_ALIASES_INPUT = 4, /* an output that shares input 0's memory (only with CUBOID_F_INPLACE) */
  CUBOID_V_ZEROED = 8         /* an output whose bytes are all zero; otherwise its contents are undefined */
};

/* One parameter. Parameters arrive in the order of the manifest, of the declared type, defaulted and within range. */
typedef struct cuboid_value {
  uint32_t size;
  uint32_t kind;  /* 'b' bool, 'i' int, 'f' float, 's' string; upper case: a list of these */
  uint64_t count; /* elements of a list, bytes of a string (without NUL), else 1 */
  union {
    int64_t i; /* also bool: 0 or 1 */
    double f;
    const char* s;
    const int64_t* iv;
    const double* fv;
    const char* const* sv;
  } u;
} cuboid_value;

/* A half-open box of indices in the whole array: lo <= index < hi. */
typedef struct cuboid_box {
  uint32_t size;
  uint32_t rank;
  int64_t lo[CUBOID_MAX_RANK];
  int64_t hi[CUBOID_MAX_RANK];
} cuboid_box;

/* ---- Planning: shapes and bytes without data ----------------------------------------------------------------------
 */

/* How far a number may be trusted. 0 promises nothing, so that a forgotten member is no promise. */
enum {
  CUBOID_UNKNOWN = 0, /* the number beside it is ignored */
  CUBOID_EXACT = 1,   /* never wrong */
  CUBOID_BOUND = 2,   /* never exceeded */
  CUBOID_GUESS = 3    /* may be exceeded */
};

/* What is known about one input before any of its bytes is read. */
typedef struct cuboid_fact {
  uint32_t size;
  uint16_t rank;
  uint16_t reserved;
  cuboid_dtype dtype;
  const int64_t* shape; /* interior extents of the block */
  const int64_t* halo;  /* per axis, on either side; never NULL unless rank is 0 */
  const int64_t* whole; /* extents of the whole array */
} cuboid_fact;

typedef struct cuboid_ask {
  uint32_t size;
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_param;
  const cuboid_fact* const* in;
  const cuboid_value* const* param;
} cuboid_ask;

/* What one output can become. The host sets size and writes 0 to the rest; `infer` fills it. */
typedef struct cuboid_out_fact {
  uint32_t size;
  uint16_t rank;
  uint16_t shape_trust; /* EXACT, BOUND or GUESS */
  cuboid_dtype dtype;
  uint32_t reserved;
  int64_t max_shape[CUBOID_MAX_RANK];
  int64_t likely_shape[CUBOID_MAX_RANK]; /* 0 along axis 0: no opinion */
} cuboid_out_fact;

/* The host sets size, out and its n_out entries and writes 0 to the rest (trust: unknown); `infer` fills it. Every
 * number must be monotone: it also holds for inputs with smaller extents. A request of n bytes to the host counts as n
 * rounded up to a multiple of 64. */
typedef struct cuboid_answer {
  uint32_t size;
  uint16_t call_trust;
  uint16_t state_trust;
  uint16_t outside_trust;
  uint16_t reserved;
  uint32_t reserved2;
  cuboid_out_fact* const* out;
  uint64_t call_bytes;    /* peak taken through host services in one call of `run` (halo and outputs not counted) */
  uint64_t state_bytes;   /* kept through host services from `open` to `close` */
  uint64_t outside_bytes; /* peak in one call that goes past the host: a third-party library's malloc */
  const char* why;        /* static text, where the ask is refused */
} cuboid_answer;

/* ---- A call and the host's services -------------------------------------------------------------------------------
 */
typedef struct cuboid_call cuboid_call;

/* Host services. All are set in a host of minor 0. Valid while the plugin is loaded; each takes the cuboid_call that
 * the plugin function was given, on the thread it was given on, before that function returns. From inside a body run by
 * `spread` only `cancelled` may be used. None takes longer than its work; `acquire`, `scratch`, `emit`, `grow` and
 * `charge` may wait while the host finds memory. */
typedef struct cuboid_host {
  uint32_t size;
  uint32_t minor;
  const char* name;
  const char* version;

  /* Optional services by name, "vendor.thing/1", or NULL. A draft is named "vendor.thing.draft/1" and may vanish.
   * [thread] any [state] any time after the hello [alloc] no */
  const void* (*extension)(const char* id);

  /* Accounted memory. `align` is a power of two up to 4096, 0 means 64. bytes 0 gives a valid pointer that counts
   * nothing. Past the limit: CUBOID_E_BUDGET, *out is NULL, and the host records what was needed. What `run` acquires
   * and does not release is a leak (the host frees it and says so); what `open` acquires lives until `close`.
   * `tag` (may be NULL) names the memory in messages.
   * [thread] the call's [state] open, close, run, init, accumulate, merge, finalize [alloc] yes */
  cuboid_status (*acquire)(cuboid_call* call, uint64_t bytes, uint64_t align, const char* tag, void** out);
  /* NULL is ignored. In `close` also what `open` acquired. [thread] the call's [state] as acquire [alloc] no */
  void (*release)(cuboid_call* call, void* memory);
  /* As acquire, but freed by the host when the function returns. [thread] the call's [state] as acquire [alloc] yes */
  cuboid_status (*scratch)(cuboid_call* call, uint64_t bytes, uint64_t align, void** out);

  /* Declares memory that is about to be taken (delta > 0) or was given back (delta < 0) past the host. Counts against
   * the manifest's outside_bytes. CUBOID_E_BUDGET where it must not be taken; nothing is recorded as taken then.
   * [thread] the call's [state] as acquire [alloc] no */
  cuboid_status (*charge)(cuboid_call* call, int64_t delta);
  /* Bytes this call may take in all, and bytes it holds. Either pointer may be NULL. [thread] the call's [alloc] no */
  void (*headroom)(cuboid_call* call, uint64_t* limit, uint64_t* in_use);

  /* Outputs whose extent depends on data; the manifest states per output which of these it uses.
   * `emit`: once, when the final shape is known; *view (also call->out[k]) is the buffer, valid until run returns.
   * `trim`: once, keeps the leading part of a preallocated output; `actual` has rank entries.
   * `grow`: enlarges along axis 0, keeps contents; *view (also call->out[k]) replaces the old one, which is dead.
   * `push`: appends a slab along axis 0; its elements are copied or stored before it returns.
   * An extent above the capacity: CUBOID_E_BOUND, and the host records k and the extent needed.
   * [thread] the call's [state] run, finalize [alloc] the host's */
  cuboid_status (*emit)(cuboid_call* call, uint32_t k, const int64_t* shape, const cuboid_view** view);
  cuboid_status (*trim)(cuboid_call* call, uint32_t k, const int64_t* actual);
  cuboid_status (*grow)(cuboid_call* call, uint32_t k, const int64_t* wanted, const cuboid_view** view);
  cuboid_status (*push)(cuboid_call* call, uint32_t k, const cuboid_view* slab);

  /* Records why the call fails and returns `status`, so that `return host->fail(...)` reads well. needed_bytes: with
   * CUBOID_E_BUDGET the bytes the whole call needs, where known, else 0. A refusal the host recorded itself is kept.
   * [thread] the call's [state] any function that got a call [alloc] no */
  cuboid_status (*fail)(cuboid_call* call, cuboid_status status, uint64_t needed_bytes, const char* message);

  /* Not 0: return CUBOID_E_CANCELLED soon. Cheap enough for an outer loop. [thread] any, also in a spread body */
  int32_t (*cancelled)(cuboid_call* call);
  /* Between 0 and 1; also tells the host that the call is alive (time-outs). [thread] the call's [alloc] no */
  void (*progress)(cuboid_call* call, double fraction);
  /* level: 0 debug, 1 info, 2 warning. [thread] the call's [alloc] no */
  void (*log)(cuboid_call* call, int32_t level, const char* message);

  /* Runs body(arg, i, lane) for every i < n on up to call->lanes threads of the host, and returns when all are done.
   * lane < call->lanes; two bodies never share a lane at one time. Results must not depend on lanes. A cancelled call
   * may leave bodies out and returns CUBOID_E_CANCELLED. [thread] the call's; body: any [state] run, accumulate [alloc]
   * no */
  cuboid_status (*spread)(cuboid_call* call, uint64_t n, void* arg, void (*body)(void* arg, uint64_t i, uint32_t lane));
} cuboid_host;

/* One call: made by the host, read by the plugin. */
struct cuboid_call {
  uint32_t size;
  uint32_t lanes; /* threads that `spread` may use, at least 1 */
  const cuboid_host* host;
  void* host_data; /* the host's own */
  uint32_t n_in;   /* 0 in open, close, init, merge, finalize */
  uint32_t n_out;  /* 0 in open, close, init, accumulate, merge */
  uint32_t n_param;
  uint32_t reserved;
  const cuboid_view* const* in;
  const cuboid_view* const* out; /* shape is the capacity; it may be below the manifest's bound */
  const cuboid_value* const* param;
};

/* ---- What a plugin offers ------------------------------------------------------------------------------------------
 */

/* Promises of a function; the validator tests each. */
enum {
  CUBOID_F_PURE = 1u << 0,        /* same inputs and parameters, same bits; no side effects */
  CUBOID_F_REENTRANT = 1u << 1,   /* `run` may overlap on one state */
  CUBOID_F_STATE_LOCAL = 1u << 2, /* `run` may overlap on different states only (neither bit: one call at a time) */
  CUBOID_F_THREADS = 1u << 3,     /* starts threads of its own */
  CUBOID_F_INPLACE = 1u << 4,     /* output 0 may alias input 0 */
  CUBOID_F_FORK_SAFE = 1u << 5
};

/* A function; static data of the plugin. Its manifest entry has the same id. Entries marked "or NULL" may be NULL. */
typedef struct cuboid_fn {
  uint32_t size;
  uint32_t flags;
  const char* id; /* "vendor.name/revision" */
  uint32_t n_in;
  uint32_t n_out;
  uint32_t n_param;
  uint32_t reserved;

  /* Shapes and bytes; or NULL where the manifest's formulas say everything (no `?`, no `callback`). Deterministic.
   * [thread] any [state] before any other [alloc] no: neither through the host nor from the heap */
  cuboid_status (*infer)(const cuboid_ask* ask, cuboid_answer* answer);
  /* For regions of kind "callback", else NULL: which box of each input (need: n_in boxes, made by the host, to be
   * filled) the box `want` of output k depends on. Monotone in `want`. [thread] any [state] any [alloc] no */
  cuboid_status (*regions)(const cuboid_ask* ask, uint32_t k, const cuboid_box* want, cuboid_box* const* need);

  /* Prepares a state for given parameters; or NULL (state is NULL then). *state may be any pointer. [thread] any, one
   * at a time [state] first [alloc] through the host, counted as state_bytes until `close` */
  cuboid_status (*open)(cuboid_call* call, void** state);
  /* Ends a state that `open` returned with CUBOID_OK; or NULL. [thread] any [state] no call on it runs [alloc] no */
  void (*close)(cuboid_call* call, void* state);
  /* One block: reads call->in, fills the interior's result into call->out. NULL only where the four below are set.
   * [thread] any; overlapping as the flags say [state] opened [alloc] through the host, at most call_bytes */
  cuboid_status (*run)(void* state, cuboid_call* call);

  /* A reduction of a whole array in bounded memory; all four or none. `partial` are the arrays that the manifest's
   * `combine` declares: host memory, C-contiguous, stored and moved between processes as bytes.
   * init fills the neutral element; accumulate adds the block in call->in; merge adds `from`, whose blocks come later
   * in C order, to `into`; finalize turns the last partial into call->out. The tree of merges depends on the block grid
   * alone. [thread] any; overlapping as the flags say [state] opened [alloc] through the host, at most call_bytes */
  cuboid_status (*init)(void* state, cuboid_call* call, const cuboid_view* const* partial);
  cuboid_status (*accumulate)(void* state, cuboid_call* call, const cuboid_view* const* partial);
  cuboid_status (*merge)(void* state, cuboid_call* call, const cuboid_view* const* into,
                         const cuboid_view* const* from);
  cuboid_status (*finalize)(void* state, cuboid_call* call, const cuboid_view* const* partial);
} cuboid_fn;

typedef struct cuboid_hello {
  uint32_t size;
  uint32_t major; /* CUBOID_MAJOR of the host */
  uint32_t min_minor;
  uint32_t max_minor; /* minors the host can serve */
  const cuboid_host* host;
} cuboid_hello;

typedef struct cuboid_plugin {
  uint32_t size;
  uint32_t needs_minor;
  const char* name;
  const char* version;
  uint32_t n_fn;
  uint32_t reserved;
  const cuboid_fn* const* fn; /* in the order of the manifest */
  /* Last words before the process ends normally; or NULL. [thread] any [state] no state is open [alloc] no */
  void (*detach)(void);
} cuboid_plugin;

/* The only exported symbol; the major is in its name. Returns static data, or NULL to decline (*why: static text).
 * [thread] any, once per process [alloc] no */
CUBOID_EXPORT const cuboid_plugin* cuboid_plugin_v1(const cuboid_hello* hello, const char** why);
typedef const cuboid_plugin* (*cuboid_plugin_v1_fn)(const cuboid_hello* hello, const char** why);
#define CUBOID_ENTRY "cuboid_plugin_v1"

/* ---- Manifest: read from the file without executing anything in it --------------------------------------------------
 */

/* Lies at the start of the ELF or PE section ".cuboid" (Mach-O "__DATA,.cuboid"), followed by json_bytes of UTF-8 JSON
 * at offset head_bytes. Found by section, not by symbol, so that strip keeps it. Frozen, except that head_bytes may
 * grow. */
typedef struct cuboid_blob_head {
  char magic[8]; /* "CUBOIDM1", no NUL */
  uint32_t head_bytes;
  uint32_t major;
  uint32_t needs_minor;
  uint32_t json_bytes;
} cuboid_blob_head;
#define CUBOID_BLOB_MAGIC "CUBOIDM1"
#define CUBOID_SECTION_NAME ".cuboid"

#if defined(__has_attribute)
#if __has_attribute(retain)
#define CUBOID_SECTION __attribute__((section(CUBOID_SECTION_NAME), used, retain))
#endif
#endif
#if !defined(CUBOID_SECTION) && defined(__APPLE__)
#define CUBOID_SECTION __attribute__((section("__DATA,.cuboid"), used))
#endif
#if !defined(CUBOID_SECTION) && !defined(_WIN32)
#define CUBOID_SECTION __attribute__((section(CUBOID_SECTION_NAME), used))
#endif

/* Puts a string literal into the section; once per library, at file scope. For C; plugin.hpp does it by itself. */
#define CUBOID_MANIFEST(json_literal)                                  \
  CUBOID_SECTION static const struct {                                 \
    cuboid_blob_head head;                                             \
    char json[sizeof(json_literal)];                                   \
  } cuboid_manifest_blob = {{{'C', 'U', 'B', 'O', 'I', 'D', 'M', '1'}, \
                             (uint32_t)sizeof(cuboid_blob_head),       \
                             CUBOID_MAJOR,                             \
                             CUBOID_NEEDS_MINOR,                       \
                             (uint32_t)sizeof(json_literal) - 1u},     \
                            json_literal}

#ifdef __cplusplus
}
#endif
#endif /* CUBOID_PLUGIN_H */
