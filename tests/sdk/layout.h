/* The layout of every struct of minor 0 on x86-64, frozen: a change here breaks plugins that are already built. A later
 * minor appends members and adds lines. Compiled as C and as C++. */
#include <cuboid/plugin.h>

#if defined(__x86_64__)
#if defined(__cplusplus)
#define CHECK(condition) static_assert(condition, #condition)
#else
#define CHECK(condition) _Static_assert(condition, #condition)
#endif
#define SIZE(type, bytes) CHECK(sizeof(type) == (bytes))
#define AT(type, member, bytes) CHECK(offsetof(type, member) == (bytes))

SIZE(cuboid_dtype, 4);
AT(cuboid_dtype, kind, 0);
AT(cuboid_dtype, reserved, 1);
AT(cuboid_dtype, bytes, 2);

SIZE(cuboid_view, 72);
AT(cuboid_view, size, 0);
AT(cuboid_view, rank, 4);
AT(cuboid_view, flags, 6);
AT(cuboid_view, dtype, 8);
AT(cuboid_view, alignment, 12);
AT(cuboid_view, data, 16);
AT(cuboid_view, shape, 24);
AT(cuboid_view, stride_bytes, 32);
AT(cuboid_view, origin, 40);
AT(cuboid_view, whole, 48);
AT(cuboid_view, inner_origin, 56);
AT(cuboid_view, inner_shape, 64);

SIZE(cuboid_value, 24);
AT(cuboid_value, size, 0);
AT(cuboid_value, kind, 4);
AT(cuboid_value, count, 8);
AT(cuboid_value, u, 16);

SIZE(cuboid_box, 264);
AT(cuboid_box, size, 0);
AT(cuboid_box, rank, 4);
AT(cuboid_box, lo, 8);
AT(cuboid_box, hi, 136);

SIZE(cuboid_fact, 40);
AT(cuboid_fact, size, 0);
AT(cuboid_fact, rank, 4);
AT(cuboid_fact, reserved, 6);
AT(cuboid_fact, dtype, 8);
AT(cuboid_fact, shape, 16);
AT(cuboid_fact, halo, 24);
AT(cuboid_fact, whole, 32);

SIZE(cuboid_ask, 32);
AT(cuboid_ask, size, 0);
AT(cuboid_ask, n_in, 4);
AT(cuboid_ask, n_out, 8);
AT(cuboid_ask, n_param, 12);
AT(cuboid_ask, in, 16);
AT(cuboid_ask, param, 24);

SIZE(cuboid_out_fact, 272);
AT(cuboid_out_fact, size, 0);
AT(cuboid_out_fact, rank, 4);
AT(cuboid_out_fact, shape_trust, 6);
AT(cuboid_out_fact, dtype, 8);
AT(cuboid_out_fact, reserved, 12);
AT(cuboid_out_fact, max_shape, 16);
AT(cuboid_out_fact, likely_shape, 144);

SIZE(cuboid_answer, 56);
AT(cuboid_answer, size, 0);
AT(cuboid_answer, call_trust, 4);
AT(cuboid_answer, state_trust, 6);
AT(cuboid_answer, outside_trust, 8);
AT(cuboid_answer, reserved, 10);
AT(cuboid_answer, reserved2, 12);
AT(cuboid_answer, out, 16);
AT(cuboid_answer, call_bytes, 24);
AT(cuboid_answer, state_bytes, 32);
AT(cuboid_answer, outside_bytes, 40);
AT(cuboid_answer, why, 48);

SIZE(cuboid_host, 144);
AT(cuboid_host, size, 0);
AT(cuboid_host, minor, 4);
AT(cuboid_host, name, 8);
AT(cuboid_host, version, 16);
AT(cuboid_host, extension, 24);
AT(cuboid_host, acquire, 32);
AT(cuboid_host, release, 40);
AT(cuboid_host, scratch, 48);
AT(cuboid_host, charge, 56);
AT(cuboid_host, headroom, 64);
AT(cuboid_host, emit, 72);
AT(cuboid_host, trim, 80);
AT(cuboid_host, grow, 88);
AT(cuboid_host, push, 96);
AT(cuboid_host, fail, 104);
AT(cuboid_host, cancelled, 112);
AT(cuboid_host, progress, 120);
AT(cuboid_host, log, 128);
AT(cuboid_host, spread, 136);

SIZE(cuboid_call, 64);
AT(cuboid_call, size, 0);
AT(cuboid_call, lanes, 4);
AT(cuboid_call, host, 8);
AT(cuboid_call, host_data, 16);
AT(cuboid_call, n_in, 24);
AT(cuboid_call, n_out, 28);
AT(cuboid_call, n_param, 32);
AT(cuboid_call, reserved, 36);
AT(cuboid_call, in, 40);
AT(cuboid_call, out, 48);
AT(cuboid_call, param, 56);

SIZE(cuboid_fn, 104);
AT(cuboid_fn, size, 0);
AT(cuboid_fn, flags, 4);
AT(cuboid_fn, id, 8);
AT(cuboid_fn, n_in, 16);
AT(cuboid_fn, n_out, 20);
AT(cuboid_fn, n_param, 24);
AT(cuboid_fn, reserved, 28);
AT(cuboid_fn, infer, 32);
AT(cuboid_fn, regions, 40);
AT(cuboid_fn, open, 48);
AT(cuboid_fn, close, 56);
AT(cuboid_fn, run, 64);
AT(cuboid_fn, init, 72);
AT(cuboid_fn, accumulate, 80);
AT(cuboid_fn, merge, 88);
AT(cuboid_fn, finalize, 96);

SIZE(cuboid_hello, 24);
AT(cuboid_hello, size, 0);
AT(cuboid_hello, major, 4);
AT(cuboid_hello, min_minor, 8);
AT(cuboid_hello, max_minor, 12);
AT(cuboid_hello, host, 16);

SIZE(cuboid_plugin, 48);
AT(cuboid_plugin, size, 0);
AT(cuboid_plugin, needs_minor, 4);
AT(cuboid_plugin, name, 8);
AT(cuboid_plugin, version, 16);
AT(cuboid_plugin, n_fn, 24);
AT(cuboid_plugin, reserved, 28);
AT(cuboid_plugin, fn, 32);
AT(cuboid_plugin, detach, 40);

SIZE(cuboid_blob_head, 24);
AT(cuboid_blob_head, magic, 0);
AT(cuboid_blob_head, head_bytes, 8);
AT(cuboid_blob_head, major, 12);
AT(cuboid_blob_head, needs_minor, 16);
AT(cuboid_blob_head, json_bytes, 20);

CHECK(CUBOID_OK == 0 && CUBOID_E_DTYPE == -1 && CUBOID_E_SHAPE == -2 && CUBOID_E_PARAM == -3);
CHECK(CUBOID_E_UNSUPPORTED == -4 && CUBOID_E_BUDGET == -5 && CUBOID_E_BOUND == -6 && CUBOID_E_CANCELLED == -7);
CHECK(CUBOID_E_NUMERIC == -8 && CUBOID_E_STATE == -9 && CUBOID_E_INTERNAL == -10 && CUBOID_E_THROWN == -11);
CHECK(CUBOID_UNKNOWN == 0 && CUBOID_EXACT == 1 && CUBOID_BOUND == 2 && CUBOID_GUESS == 3);
CHECK(CUBOID_V_READONLY == 1 && CUBOID_V_ROWMAJOR == 2 && CUBOID_V_ALIASES_INPUT == 4 && CUBOID_V_ZEROED == 8);
CHECK(CUBOID_F_PURE == 1 && CUBOID_F_REENTRANT == 2 && CUBOID_F_STATE_LOCAL == 4 && CUBOID_F_THREADS == 8);
CHECK(CUBOID_F_INPLACE == 16 && CUBOID_F_FORK_SAFE == 32 && CUBOID_MAX_RANK == 16 && CUBOID_MAJOR == 1);
#endif
