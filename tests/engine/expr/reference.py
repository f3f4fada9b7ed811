"""Writes calls of array functions with NumPy's results: the truth that the built-in kernels are compared with.

Usage: reference.py OUT.json OUT.bin. Deterministic (fixed seed). Where the installed NumPy is older than 2 its
value-based casting of numbers and 0-d arrays is avoided by converting them to the promoted type first (NEP 50).
"""
import itertools
import json
import sys
import warnings

import numpy as np

np.seterr(all="ignore")
warnings.simplefilter("ignore")
SEED = 20240601
rng = np.random.default_rng(SEED)
blob = bytearray()
places = {}
cases = []

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ALL = BOOL + INTS + FLOATS + COMPLEX
REAL = INTS + FLOATS


def put(array):
    """Appends an array's elements in C order, once for equal ones; returns where."""
    content = np.ascontiguousarray(array).tobytes()
    if content not in places:
        blob.extend(bytes(-len(blob) % 16))
        places[content] = len(blob)
        blob.extend(content)
    return places[content]


def values(dtype, shape, small=False, special=True):
    """Random elements; integers over the whole range, floats with NaN, infinities and zeros of both signs."""
    dtype = np.dtype(dtype)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if small:
            return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
        out = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        flat = out.reshape(-1)
        for k, v in enumerate([info.min, info.max, 0, 1, 2]):
            if special and flat.size > 10:
                flat[k * 2] = v
        return out
    if dtype.kind == "c":
        part = "float32" if dtype == np.complex64 else "float64"
        out = np.empty(shape, dtype)
        out.real, out.imag = values(part, shape, small, special), values(part, shape, True, False)
        return out
    out = rng.normal(0, 3 if small else 40, shape)
    flat = out.reshape(-1)
    flat[::5] = np.round(flat[::5])
    if special and flat.size > 20:
        flat[3], flat[5], flat[7], flat[9], flat[11], flat[13] = np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5
    return out.astype(dtype)


def lay_out(array, layout):
    """The same elements in another memory layout: (elements of the base, shape, strides in elements, offset)."""
    n = array.ndim
    if layout == "contiguous" or n == 0:
        return array, [s // array.itemsize for s in np.ascontiguousarray(array).strides], 0
    if layout == "transposed":
        base = np.ascontiguousarray(array.T)
        view = base.T
        return base, [s // array.itemsize for s in view.strides], 0
    if layout == "reversed":
        base = np.ascontiguousarray(array[(slice(None, None, -1),) * n])
        strides = [-s // array.itemsize for s in base.strides]
        offset = sum((e - 1) * s // array.itemsize for e, s in zip(base.shape, base.strides)) if base.size else 0
        return base, strides, offset
    if layout == "padded":  # every second element of a larger array
        base = np.zeros([2 * e + 1 for e in array.shape], array.dtype)
        window = (slice(1, None, 2),) * n
        base[window] = array
        view = base[window]
        offset = sum(s // array.itemsize for s in base.strides) if array.size else 0
        return base, [s // array.itemsize for s in view.strides], offset
    raise ValueError(layout)


def describe(array, layout):
    base, strides, offset = lay_out(array, layout)
    return {"dtype": str(array.dtype), "shape": list(array.shape), "strides": strides, "offset": offset,
            "at": put(base), "elements": int(base.size)}


def case(function, args, expected, params=None, layout="contiguous", ulps=0, label="", scale=0.0, output=0):
    """args: arrays, or Python numbers. expected: an array, or None where the call must be refused."""
    entry = {"function": function, "params": params or {}, "ulps": ulps, "scale": scale, "label": f"{function} {label} {layout}",
             "args": [{"array": describe(a, layout)} if isinstance(a, np.ndarray) else {"scalar": a} for a in args]}
    if output:
        entry["output"] = output
    if expected is not None:
        expected = np.asarray(expected)
        entry["expected"] = {"dtype": str(expected.dtype), "shape": list(expected.shape), "at": put(expected)}
    cases.append(entry)


def result_type(args):
    """NEP 50: Python numbers are weak."""
    arrays = [a.dtype for a in args if isinstance(a, np.ndarray)]
    dtype = np.result_type(*arrays) if arrays else None
    for a in args:
        if isinstance(a, np.ndarray):
            continue
        rank = {bool: 0, int: 1, float: 2, complex: 3}[type(a)]
        own = [np.dtype(bool), np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.complex128)][rank]
        if dtype is None:
            dtype = own
        kind = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}[dtype.kind]
        if rank > kind:
            dtype = np.dtype(np.complex64) if rank == 3 and dtype == np.float32 else own
    return dtype


def widen(a):
    """float16, which Cuboid does not have, stands for float32."""
    return np.dtype(np.float32) if a == np.float16 else a


SHAPES = [((23,), (23,)), ((4, 7), (7,)), ((3, 1, 5), (4, 1)), ((), (6,)), ((0, 3), (3,)), ((2, 3), (2, 3)), ((), ())]
LAYOUTS = ["contiguous", "transposed", "reversed", "padded"]


def call(ufunc, args, dtype, result=None):
    """ufunc in the given type: arrays are converted first, so that 0-d ones count as arrays."""
    with np.errstate(all="ignore"):
        out = ufunc(*[np.asarray(a).astype(dtype) for a in args])
    return np.asarray(out, dtype=result) if result is not None else np.asarray(out)


def binary(name, ufunc, types, small=False, ulps=0, pairs=None, adjust=None, promote=None):
    pairs = pairs or [(t, t) for t in types]
    for k, (ta, tb) in enumerate(pairs):
        for j, (sa, sb) in enumerate(SHAPES):
            a, b = values(ta, sa, small), values(tb, sb, small)
            if adjust:
                a, b = (np.asarray(x).astype(t) for x, t in zip(adjust(a, b), (ta, tb)))
            dtype = (promote or result_type)([a, b])
            case(name, [a, b], call(ufunc, [a, b], dtype), layout=LAYOUTS[(k + j) % 4], ulps=ulps,
                 label=f"{ta}{list(sa)} {tb}{list(sb)}")


def unary(name, ufunc, types, small=False, ulps=0, compute=None, adjust=None, result=None):
    for k, t in enumerate(types):
        for j, s in enumerate([(40,), (5, 9), (2, 3, 4), (), (3, 0)]):
            a = values(t, s, small)
            if adjust:
                a = np.asarray(adjust(a)).astype(t)
            dtype = np.dtype((compute or {}).get(t, t))
            case(name, [a], call(ufunc, [a], dtype, result(dtype) if result else None), layout=LAYOUTS[(k + j) % 4],
                 ulps=ulps, label=f"{t}{list(s)}")


MIXED = [p for p in itertools.product(ALL, ALL) if p[0] != p[1]]
# float16 never appears among the promoted types of these pairs: int8 with float32 is float32.


def elementwise():
    no_bool = INTS + FLOATS + COMPLEX
    binary("add", np.add, ALL)
    binary("add", np.add, ALL, small=True, pairs=MIXED)
    binary("subtract", np.subtract, no_bool)
    binary("multiply", np.multiply, ALL)
    binary("multiply", np.multiply, ALL, small=True, pairs=[("int8", "float32"), ("uint64", "int64"), ("bool", "int16"),
                                                          ("float64", "complex64"), ("int32", "complex64")])
    true_division = lambda args: np.dtype(np.float64) if result_type(args).kind in "biu" else result_type(args)
    binary("divide", np.true_divide, BOOL + INTS + FLOATS, promote=true_division)
    binary("divide", np.true_divide, COMPLEX, ulps=2, small=True)
    to_int8 = lambda args: np.dtype(np.int8) if result_type(args) == bool else result_type(args)
    binary("floor_divide", np.floor_divide, BOOL + REAL, promote=to_int8)
    binary("floor_divide", np.floor_divide, REAL, small=True)
    binary("remainder", np.remainder, BOOL + REAL, promote=to_int8)
    binary("remainder", np.remainder, REAL, small=True)
    binary("pow", np.power, INTS, small=True, adjust=lambda a, b: (a, np.abs(b)))
    binary("pow", np.power, FLOATS, small=True, ulps=2)
    binary("pow", np.power, ["bool"], promote=to_int8)
    for name in ["minimum", "maximum"]:
        binary(name, getattr(np, name), ALL)
    names = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
    for name in names + ["logical_and", "logical_or", "logical_xor"]:
        binary(name, getattr(np, name), ALL)
        binary(name, getattr(np, name), ALL, small=True)
    binary("less", np.less, [], small=True, pairs=[("int8", "float64"), ("bool", "uint8"), ("int16", "uint32")])
    for name, ufunc in [("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)]:
        binary(name, ufunc, BOOL + INTS)
    for name, ufunc in [("bitwise_left_shift", np.left_shift), ("bitwise_right_shift", np.right_shift)]:
        binary(name, ufunc, INTS, adjust=lambda a, b: (a, np.abs(b) % 70))
        binary(name, ufunc, BOOL, promote=to_int8)

    unary("logical_not", np.logical_not, ALL)
    unary("bitwise_invert", np.invert, BOOL + INTS)
    unary("negative", np.negative, no_bool)
    unary("positive", np.positive, no_bool)
    unary("abs", np.absolute, BOOL + REAL)
    unary("abs", np.absolute, COMPLEX, ulps=2)
    unary("square", np.square, BOOL + no_bool, compute={"bool": "int8"})
    unary("sign", np.sign, REAL)
    for name in ["floor", "ceil", "trunc"]:
        unary(name, getattr(np, name), FLOATS)
        unary(name, lambda a: a, BOOL + INTS)
    unary("round", np.rint, FLOATS + COMPLEX)
    unary("round", lambda a: a, INTS)
    for name in ["isnan", "isinf", "isfinite"]:
        unary(name, getattr(np, name), ALL)
    unary("signbit", np.signbit, FLOATS)
    unary("real", np.real, ALL)
    unary("imag", np.imag, ALL)
    unary("conj", np.conjugate, no_bool)
    mathematics()
    scalars()
    three_operands()


def mathematics():
    as_float = {t: "float32" for t in ["bool", "int8", "uint8", "int16", "uint16"]}
    as_float.update({t: "float64" for t in ["int32", "uint32", "int64", "uint64"]})
    everything = BOOL + INTS + FLOATS
    unary("sqrt", np.sqrt, everything, compute=as_float)
    pairs = [("exp", "exp"), ("expm1", "expm1"), ("log", "log"), ("log1p", "log1p"), ("log2", "log2"),
             ("log10", "log10"), ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("asin", "arcsin"),
             ("acos", "arccos"), ("atan", "arctan"), ("sinh", "sinh"), ("cosh", "cosh"), ("tanh", "tanh"),
             ("asinh", "arcsinh"), ("acosh", "arccosh"), ("atanh", "arctanh")]
    for ours, theirs in pairs:
        unary(ours, getattr(np, theirs), everything, small=True, compute=as_float, ulps=4)
        scale = lambda a: (a / 8).astype(a.dtype)
        unary(ours, getattr(np, theirs), FLOATS, small=True, adjust=scale, ulps=4)
        finite = lambda a: np.nan_to_num(a / 8, nan=0.25, posinf=0.5, neginf=-0.5).astype(a.dtype)
        unary(ours, getattr(np, theirs), COMPLEX, small=True, adjust=finite, ulps=64)
    nonzero = lambda a: np.where(a == 0, a.dtype.type(3), a)
    unary("reciprocal", np.reciprocal, FLOATS)
    unary("reciprocal", np.reciprocal, INTS, small=True, adjust=nonzero)
    unary("reciprocal", np.reciprocal, COMPLEX, small=True, adjust=lambda a: nonzero(np.nan_to_num(a, posinf=2.0, neginf=-2.0)), ulps=2)
    for name, ufunc in [("atan2", np.arctan2), ("hypot", np.hypot), ("copysign", np.copysign),
                        ("nextafter", np.nextafter), ("logaddexp", np.logaddexp)]:
        exact = name in ("copysign", "nextafter")
        binary(name, ufunc, FLOATS, small=True, ulps=0 if exact else 4)
        binary(name, ufunc, [], small=True, ulps=0 if exact else 4,
               pairs=[("int8", "int16"), ("int64", "float32"), ("bool", "float64")],
               promote=lambda args: np.dtype(as_float.get(str(result_type(args)), str(result_type(args)))))


def scalars():
    """Python numbers with arrays, NEP 50."""
    for t in ALL:
        a = values(t, (3, 5), small=True)
        for number in [True, 3, 0, 2.5, 1e10]:
            dtype = result_type([a, number])
            case("add", [a, number], call(np.add, [a, number], dtype), label=f"{t} + {number!r}")
            if dtype != bool:
                case("subtract", [number, a], call(np.subtract, [number, a], dtype), label=f"{number!r} - {t}")
            case("equal", [a, number], call(np.equal, [a, number], dtype), label=f"{t} == {number!r}")
    for t, number in [("uint8", 300), ("int8", -129), ("uint16", -1), ("uint64", -1), ("uint32", 2**32), ("int32", 2**31)]:
        a = values(t, (12,))
        case("add", [a, number], None, label=f"{t} + {number} is out of range")
        exact = a.astype(object)
        case("less", [a, number], (exact < number).astype(bool), label=f"{t} < {number}")
        case("greater_equal", [number, a], (number >= exact).astype(bool), label=f"{number} >= {t}")
        case("not_equal", [a, number], (exact != number).astype(bool), label=f"{t} != {number}")
    for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
        a = np.array([0, 1, 2**63 - 1, 2**53 + 1, -1, -2**63], np.int64)
        b = np.array([0, 2, 2**63, 2**53, 2**64 - 1, 2**63], np.uint64)
        exact = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
                 "greater": np.greater, "greater_equal": np.greater_equal}[name]
        case(name, [a, b], exact(a.astype(object), b.astype(object)).astype(bool), label="int64 uint64 exact")
        case(name, [b, a], exact(b.astype(object), a.astype(object)).astype(bool), label="uint64 int64 exact")
    case("pow", [np.array([2, 3]), np.array([-1, 2])], "raises", label="negative power of an integer")
    cases[-1]["raises"] = True
    del cases[-1]["expected"]
    case("subtract", [values("bool", (4,)), values("bool", (4,))], None, label="bool - bool")
    case("negative", [values("bool", (4,))], None, label="-bool")
    case("sign", [values("bool", (4,))], None, label="sign of bool")
    case("floor_divide", [values("complex64", (4,)), values("complex64", (4,))], None, label="complex")
    case("bitwise_and", [values("float64", (4,)), values("float64", (4,))], None, label="float")
    case("add", [values("float64", (4, 2)), values("float64", (3, 2))], None, label="shapes")


def three_operands():
    for t in ALL:
        c, a, b = values("bool", (4, 6)), values(t, (6,)), values(t, (4, 1))
        for layout in LAYOUTS:
            case("where", [c, a, b], np.where(c, a, b), layout=layout, label=t)
    c, a, b = values("bool", (9,)), values("int16", (9,), True), values("float32", (9,), True)
    case("where", [c, a, b], np.where(c, a, b), label="int16 float32")
    case("where", [c, a, 7], np.where(c, a, np.int16(7)), label="int16 7")
    case("where", [c, 1.5, b], np.where(c, np.float32(1.5), b), label="1.5 float32")
    case("where", [a, a, a], None, label="condition is not bool")
    for t in REAL:
        a, low, high = values(t, (3, 8)), values(t, (8,), True), values(t, (3, 1), True)
        case("clip", [a, low, high], call(lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi), [a, low, high], a.dtype), label=t)
        case("clip", [a], call(lambda x: np.minimum(np.maximum(x, a.dtype.type(1)), a.dtype.type(5)), [a], a.dtype),
             params={"min": 1, "max": 5}, label=t)
        case("clip", [a], call(lambda x: np.maximum(x, a.dtype.type(2)), [a], a.dtype), params={"min": 2}, label=t)
        case("clip", [a], call(lambda x: np.minimum(x, a.dtype.type(2)), [a], a.dtype), params={"max": 2, "min": None}, label=t)


def conversions():
    for source, target in itertools.product(ALL, ALL):
        if source in COMPLEX and target not in COMPLEX + BOOL:
            case("astype", [values(source, (3,))], None, params={"dtype": target}, label=f"{source} {target}")
            continue
        small = target not in BOOL and source in FLOATS
        a = values(source, (5, 6), small=small, special=not small)
        if small and target in UNSIGNED:
            a = np.abs(a)
        with np.errstate(all="ignore"):
            for layout in LAYOUTS:
                case("astype", [a], a.astype(target), params={"dtype": target}, layout=layout, label=f"{source} {target}")
    # Out of range: what x86-64 does, written out.
    a = np.array([3e9, -3e9, 1e20, np.nan, np.inf, -1.5, 300.7], np.float64)
    case("astype", [a], np.array([-2**31, -2**31, -2**31, -2**31, -2**31, -1, 300], np.int32), params={"dtype": "int32"})
    case("astype", [a], np.array([3000000000, -3000000000, -2**63, -2**63, -2**63, -1, 300], np.int64), params={"dtype": "int64"})
    case("astype", [a], np.array([0, 0, 0, 0, 0, 255, 44], np.uint8), params={"dtype": "uint8"})
    case("astype", [np.zeros(2)], None, params={"dtype": "flaot64"}, label="unknown type")
    for t in ALL:
        a = values(t, (4, 5))
        case("rechunk", [a], a, params={"chunks": [2, 5]}, label=t)


def reductions():
    shapes = [(50,), (7, 9), (3, 5, 4), (2, 1, 3, 4), (), (1500,), (3, 1100), (1100, 3)]
    for name, ufunc in [("sum", np.sum), ("prod", np.prod), ("mean", np.mean), ("min", np.min), ("max", np.max),
                        ("any", np.any), ("all", np.all), ("count_nonzero", np.count_nonzero), ("var", np.var),
                        ("std", np.std), ("argmin", np.argmin), ("argmax", np.argmax)]:
        for t in ALL:
            if t in COMPLEX and name in ("var", "std", "argmin", "argmax"):
                case(name, [values(t, (4,))], None, label=f"{t} is refused")
                continue
            for j, shape in enumerate(shapes):
                special = name in ("min", "max", "any", "all", "count_nonzero", "argmin", "argmax") and j % 2 == 0
                small = name in ("var", "std", "mean", "prod") or t in FLOATS + COMPLEX
                a = values(t, shape, small=small, special=special)
                if name == "prod" and t not in BOOL + INTS:
                    a = np.asarray(np.sign(a.real) * (0.9 + np.abs(a) % 0.2)).astype(t)
                if name in ("any", "all"):
                    a[rng.random(shape) < 0.5] = name == "all"
                for axis in axes_of(name, len(shape)):
                    keepdims = bool(rng.integers(2))
                    reduce_case(name, ufunc, a, axis, keepdims, LAYOUTS[j % 4])
    special_reductions()


def axes_of(name, rank):
    if name.startswith("arg"):
        return [None] + list(range(-rank, rank))[:: 2]
    sets = [None] + [list(c) for n in range(1, rank + 1) for c in itertools.combinations(range(rank), n)]
    return sets[:10] + ([-1, []] if rank else [])


def reduce_case(name, ufunc, a, axis, keepdims, layout, **more):
    spread = tuple(axis) if isinstance(axis, list) else axis
    t = str(a.dtype)
    wide = a
    if name in ("sum", "prod", "mean", "var", "std") and a.dtype.kind in "fc":
        wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        expected = np.asarray(ufunc(wide, axis=spread, keepdims=keepdims, **more))
    if wide is not a and "dtype" not in more:
        expected = expected.astype(t)
    exact = expected.dtype.kind in "biu" or name in ("min", "max")
    params = {"axis": axis, "keepdims": keepdims}
    params.update({"correction" if k == "ddof" else k: v for k, v in more.items()})
    # The error of a sum is measured against what was added up, not against what is left of it.
    scale = 0.0
    if name in ("sum", "mean") and not exact and wide.size and np.isfinite(wide).all():
        scale = float(np.max(ufunc(np.abs(wide), axis=spread), initial=0.0))
    case(name, [a], expected, params=params, layout=layout, ulps=0 if exact else 16 if scale else 1024, scale=scale,
         label=f"{t}{list(a.shape)} axis={axis} {more}")


def special_reductions():
    for t in ["int8", "uint16", "float32", "float64"]:
        a = values(t, (6, 7), small=True, special=False)
        for name, ufunc in [("var", np.var), ("std", np.std)]:
            for ddof in [1, 2.5, 6, 7]:
                reduce_case(name, ufunc, a, [0], False, "contiguous", ddof=ddof)
        for target in ["float64", "int64", "int16", "uint8", "float32"]:
            positive = np.abs(a)
            reduce_case("sum", np.sum, positive, [1], True, "contiguous", dtype=target)
    nan = values("float64", (5, 6), special=False)
    nan[2, 3] = nan[4, 1] = np.nan
    for name, ufunc in [("sum", np.sum), ("mean", np.mean), ("min", np.min), ("max", np.max), ("var", np.var),
                        ("argmin", np.argmin), ("argmax", np.argmax), ("any", np.any), ("all", np.all)]:
        for axis in [None, 0, 1]:
            reduce_case(name, ufunc, nan, axis, False, "reversed")
    for layout, t in itertools.product(LAYOUTS, ["float64", "int64"]):
        long = values(t, (9, 130), small=True, special=False)
        deep = values(t, (5, 6, 70), small=True, special=False)
        for name, ufunc in [("sum", np.sum), ("max", np.max), ("std", np.std), ("argmin", np.argmin)]:
            for axis in [None, 0, 1] + ([] if name == "argmin" else [[]]):
                reduce_case(name, ufunc, long, axis, False, layout)
            for axis in [0, 1, 2] + ([] if name == "argmin" else [[0, 1], [0, 2], [1, 2]]):
                reduce_case(name, ufunc, deep, axis, False, layout)
    ties = np.array([[3, 1, 1], [1, 3, 3], [3, 1, 3]], np.int32)
    for axis in [None, 0, 1]:
        reduce_case("argmin", np.argmin, ties, axis, False, "padded")
        reduce_case("argmax", np.argmax, ties, axis, True, "transposed")
    empty = np.zeros((0, 3), np.float32)
    for name, ufunc in [("sum", np.sum), ("prod", np.prod), ("any", np.any), ("all", np.all)]:
        for axis in [None, 0, 1]:
            reduce_case(name, ufunc, empty, axis, False, "contiguous")
    for axis in [None, 0, 1]:
        reduce_case("mean", np.mean, empty, axis, False, "contiguous")
        reduce_case("var", np.var, empty, axis, False, "contiguous")
    reduce_case("min", np.min, empty, 1, False, "contiguous")
    case("min", [empty], None, params={"axis": 0}, label="min of nothing")
    case("argmax", [empty], None, label="argmax of nothing")
    case("sum", [empty], None, params={"axis": 2}, label="axis out of range")
    case("sum", [empty], None, params={"axis": [0, -2]}, label="axis twice")
    case("sum", [empty], None, params={"axsi": 1}, label="unknown parameter")
    case("sum", [empty], None, params={"keepdims": 1}, label="wrong type")


def creation():
    for name, ufunc in [("zeros", np.zeros), ("ones", np.ones)]:
        for t in ALL:
            for shape in [[], [5], [3, 4], [0, 2]]:
                case(name, [], ufunc(shape, t), params={"shape": shape, "dtype": t}, label=f"{t} {shape}")
        case(name, [], ufunc((2, 2)), params={"shape": [2, 2]})
        case(name + "_like", [np.empty((3, 2), "int16")], ufunc((3, 2), "int16"))
        case(name + "_like", [np.empty((3, 2), "int16")], ufunc((3, 2), "float32"), params={"dtype": "float32"})
    case("full", [], np.full((2, 3), 7), params={"shape": [2, 3], "fill_value": 7})
    case("full", [], np.full((2, 3), 1.5), params={"shape": [2, 3], "fill_value": 1.5})
    case("full", [], np.full((4,), True), params={"shape": 4, "fill_value": True})
    case("full", [], np.full((2,), 9, "uint8"), params={"shape": [2], "fill_value": 9, "dtype": "uint8"})
    case("full", [], None, params={"shape": [2], "fill_value": 300, "dtype": "uint8"}, label="out of range")
    case("full", [], None, params={"shape": [-2], "fill_value": 3}, label="negative extent")
    case("full_like", [np.empty((3,), "int16")], np.full(3, 4, "int16"), params={"fill_value": 4})
    for args in [[5], [2, 9], [2, 9, 3], [9, 2, -3], [9, 2], [0], [0.5, 4.1, 0.3], [1, 2, 0.1], [3, -1, -0.7], [-5, 5, 5]]:
        case("arange", args, np.arange(*args), label=str(args))
    case("arange", [4], np.arange(4, dtype="float32"), params={"dtype": "float32"})
    case("arange", [], np.arange(1, 7, 2), params={"start": 1, "stop": 7, "step": 2})
    case("arange", [1, 5, 0], None, label="step 0")
    for args in [[0, 1, 5], [2.5, -3.5, 11], [1, 1, 3], [0, 1, 1], [0, 1, 0], [-1, 7, 2]]:
        case("linspace", args, np.linspace(*args), label=str(args))
        case("linspace", args, np.linspace(*args, endpoint=False), params={"endpoint": False}, label=str(args))
    for args, k in itertools.product([[4], [3, 5], [5, 3], [0, 2]], [0, 1, -2, 9, -9]):
        case("eye", args, np.eye(*args, k=k), params={"k": k}, label=str((args, k)))
    case("eye", [3], np.eye(3, dtype="int8"), params={"dtype": "int8"})
    case("asarray", [], np.array([1, 2, 3]), params={"data": [1, 2, 3]})
    case("asarray", [], np.array([1.5, 2]), params={"data": [1.5, 2.0]})
    case("asarray", [], np.array(4.5), params={"data": 4.5})
    case("asarray", [], np.array([[1, 2], [3, 4]], "uint8"), params={"data": [1, 2, 3, 4], "shape": [2, 2], "dtype": "uint8"})
    case("asarray", [], np.array([True, False]), params={"data": [1, 0], "dtype": "bool"})
    case("asarray", [], None, params={"data": [1, 2, 3], "shape": [2]}, label="shape does not fit")
    case("asarray", [], None, params={"data": [1, -2], "dtype": "uint8"}, label="out of range")


def movement():
    for t, layout in zip(ALL, itertools.cycle(LAYOUTS)):
        a = values(t, (3, 4, 5))
        case("permute_dims", [a], a.transpose(2, 0, 1), params={"axes": [2, 0, 1]}, layout=layout, label=t)
        case("flip", [a], np.flip(a, 1), params={"axis": 1}, layout=layout, label=t)
        case("getitem", [a], a[1:, ::-2, None, -1], params={"key": "1:, ::-2, None, -1"}, layout=layout, label=t)
        case("concat", [a, a[:, :2]], np.concatenate([a, a[:, :2]], 1), params={"axis": 1}, layout=layout, label=t)
        case("stack", [a, a], np.stack([a, a], 1), params={"axis": 1}, layout=layout, label=t)
        indices = np.array([4, 0, -1, 2, 2, 3])
        case("take", [a, indices], np.take(a, indices, 2), params={"axis": 2}, layout=layout, label=t)
    a = values("int32", (3, 1, 4, 5))
    for axes in itertools.permutations(range(4)):
        case("permute_dims", [a], a.transpose(axes), params={"axes": list(axes)}, label=str(axes))
    case("permute_dims", [a], a.transpose(-1, 0, -2, 1), params={"axes": [-1, 0, -2, 1]})
    case("permute_dims", [a], None, params={"axes": [0, 1, 2]}, label="an axis is missing")
    case("permute_dims", [a], None, params={"axes": [0, 1, 2, 2]}, label="an axis twice")
    case("permute_dims", [a], None, label="no axes")
    case("matrix_transpose", [a], a.swapaxes(-1, -2))
    case("matrix_transpose", [np.zeros(3)], None, label="one axis")
    for source, target in [(0, -1), ([0, 1], [-1, -2]), ([3, 0], [0, 2]), ([], [])]:
        case("moveaxis", [a], np.moveaxis(a, source, target), params={"source": source, "destination": target})
    case("moveaxis", [a], None, params={"source": [0, 1], "destination": [0]}, label="lengths differ")
    for axis in [0, 2, -1, 4, [0, 2], [-1, 0]]:
        case("expand_dims", [a], np.expand_dims(a, tuple(axis) if isinstance(axis, list) else axis), params={"axis": axis})
    case("expand_dims", [a], None, params={"axis": 5}, label="out of range")
    for axis in [1, -3, None, []]:
        case("squeeze", [a], np.squeeze(a, tuple(axis) if isinstance(axis, list) else axis), params={"axis": axis})
    case("squeeze", [a], None, params={"axis": 0}, label="extent 3")
    for axis in [None, 0, [1, -1], 3]:
        case("flip", [a], np.flip(a, tuple(axis) if isinstance(axis, list) else axis), params={"axis": axis})
    for shape in [[3, 6, 4, 5], [2, 3, 1, 4, 5], [2, 3, 7, 4, 5], [3, 0, 4, 5]]:
        case("broadcast_to", [a], np.broadcast_to(a, shape), params={"shape": shape}, label=str(shape))
    case("broadcast_to", [np.array(3.5)], np.full((2, 3), 3.5), params={"shape": [2, 3]})
    for shape in [[3, 1, 4], [3, 1, 4, 6], [1, 1, 4, 5], [-1, 1, 4, 5]]:
        case("broadcast_to", [a], None, params={"shape": shape}, label=str(shape))
    indexing()
    joining()


def searching():
    for t, u in [(t, t) for t in ALL] + [("int16", "float32"), ("uint8", "int64"), ("float32", "float64"), ("int64", "uint64")]:
        for layout, (n, shape) in zip(LAYOUTS, [(40, (5, 7)), (1, (3,)), (0, (4,)), (90, ())]):
            a = np.sort(values(t, (n,), small=True))
            b = values(u, shape, small=True)
            for side in ["left", "right"]:
                case("searchsorted", [a, b], np.searchsorted(a, b, side).astype(np.int64), params={"side": side},
                     layout=layout, label=f"{t} {u} {side}")
    case("searchsorted", [np.zeros((2, 2)), np.zeros(2)], None, label="two axes")
    case("searchsorted", [np.zeros(2), np.zeros(2)], None, params={"side": "middle"}, label="no such side")


def sorted_rows(x):
    """(values, first places, counts) of the distinct elements: every NaN is one, the first of equal ones is kept."""
    flat = x.reshape(-1)
    nan = np.isnan(flat) if flat.dtype.kind in "fc" else np.zeros(flat.shape, bool)
    order = np.argsort(flat, kind="stable")
    new = np.ones(order.shape, bool)
    new[1:] = (flat[order][1:] != flat[order][:-1]) | nan[order][1:]
    begins = np.flatnonzero(new)
    return flat[order][new], order[new], np.diff(np.append(begins, order.size))


def data_dependent():
    shapes = [(40,), (6, 9), (3, 4, 5), (1,), (0, 3)]
    for t in ALL:
        for layout, shape in zip(LAYOUTS + ["contiguous"], shapes):
            x = values(t, shape, small=True, special=False)
            if x.dtype.kind in "fc" and x.size > 10:  # few distinct elements, NaN and zeros of both signs among them
                x = np.round(x / 20)
                flat = x.reshape(-1)
                flat[[2, 7]], flat[4], flat[1] = np.nan, -0.0, 0.0
            u, first, counts = sorted_rows(x)
            for name, columns in [("unique_values", [u]), ("unique_counts", [u, counts]), ("unique_inverse", [u, None]),
                                  ("unique_all", [u, first, None, counts])]:
                for k, expected in enumerate(columns):
                    # Where no positions are kept, which zero stays depends on the blocks: its sign is left open.
                    if expected is not None:
                        case(name, [x], expected, layout=layout, label=f"{t} {shape} {k}", output=k,
                             ulps=1 if len(columns) < 3 and k == 0 else 0)
            for axis, expected in enumerate(np.nonzero(x)):
                case("nonzero", [x], expected, layout=layout, label=f"{t} {shape} {axis}", output=axis)
            for rank in range(1, x.ndim + 1):
                mask = rng.random(shape[:rank]) < 0.5
                case("select", [x, mask], x[mask], layout=layout, label=f"{t} {shape} {rank}")
    case("nonzero", [np.array(3)], None, label="no axes")
    case("select", [np.zeros(3), np.zeros(3)], None, label="mask of numbers")
    case("select", [np.zeros((3, 4)), np.zeros(4, bool)], None, label="shapes")
    case("select", [np.zeros(3), np.zeros((), bool)], None, label="mask without axes")
    case("unique_values", [3], None, label="a number")


def rearranging():
    for t, layout in zip(ALL, itertools.cycle(LAYOUTS)):
        a = values(t, (4, 6, 5))
        case("reshape", [a], a.reshape(2, 12, 5), params={"shape": [2, 12, 5]}, layout=layout, label=t)
        case("roll", [a], np.roll(a, 2, 1), params={"shift": 2, "axis": 1}, layout=layout, label=t)
        case("tile", [a], np.tile(a, (2, 1, 3)), params={"repetitions": [2, 1, 3]}, layout=layout, label=t)
        case("repeat", [a, 3], np.repeat(a, 3, 1), params={"axis": 1}, layout=layout, label=t)
        case("unstack", [a], a[:, 4], params={"axis": 1}, layout=layout, label=t, output=4)
        case("take_along_axis", [a, np.argsort(a.real, 1)], np.take_along_axis(a, np.argsort(a.real, 1), 1), params={"axis": 1},
             layout=layout, label=t)
    reshaping()
    a = values("int32", (3, 7))
    for shift, axis in [(1, 0), (-2, 1), (9, 1), ([1, -3], [0, 1]), (5, None), (0, None), (0, 0), ([2, 3], 1), (1, [0, 1])]:
        case("roll", [a], np.roll(a, shift, None if axis is None else tuple(axis) if isinstance(axis, list) else axis),
             params={"shift": shift, "axis": axis}, label=f"{shift} {axis}")
    case("roll", [a], None, params={"shift": [1, 2, 3], "axis": [0, 1]}, label="lengths")
    case("roll", [np.zeros((0, 3))], np.zeros((0, 3)), params={"shift": 2, "axis": 0}, label="empty")
    for reps in [3, [2, 2], [1, 1], [2, 1, 2], [0, 2], 1]:
        case("tile", [a], np.tile(a, reps), params={"repetitions": reps}, label=str(reps))
        case("tile", [a[0]], np.tile(a[0], reps), params={"reps": reps}, label=str(reps))
    case("tile", [a], None, params={"repetitions": -1}, label="negative")
    for n, axis in [(2, None), (3, 0), (2, -1), (0, 1), (1, 0)]:
        case("repeat", [a, n], np.repeat(a, n, axis), params={"axis": axis}, label=f"{n} {axis}")
        case("repeat", [a], np.repeat(a, n, axis), params={"axis": axis, "repeats": n}, label=f"{n} {axis}")
    case("repeat", [a, np.array([1, 2, 3])], None, params={"axis": 0}, label="numbers of their own")
    case("repeat", [a, -1], None, label="negative")
    for k in range(3):
        case("unstack", [a], a[k], output=k, label=str(k))
    case("unstack", [np.array(3)], None, label="no axes")
    x, y, z = values("float32", (3,)), values("float32", (4,)), values("float32", (2,))
    for indexing, args in itertools.product(["xy", "ij"], [[x], [x, y], [x, y, z], [x, y[:0]], [x, np.array(2, "float32")]]):
        args = [np.asarray(arg) for arg in args]
        for k, expected in enumerate(np.meshgrid(*args, indexing=indexing)):
            case("meshgrid", args, expected, params={"indexing": indexing}, output=k, label=f"{indexing} {len(args)} {k}")
    case("meshgrid", [x, a], None, label="two axes")
    case("meshgrid", [x, y.astype("float64")], None, label="types")
    args = [values("int8", (3, 1)), values("float64", (4,)), np.array(True)]
    for k, expected in enumerate(np.broadcast_arrays(*args)):
        case("broadcast_arrays", args, expected, output=k, label=str(k))
    case("broadcast_arrays", [x, y], None, label="shapes")
    for t in ALL:
        b = values(t, (5, 8), special=False, small=True)
        for axis, n in [(-1, 1), (0, 2), (1, 0), (0, 4)]:
            case("diff", [b], np.diff(b, n, axis), params={"axis": axis, "n": n}, label=f"{t} {axis} {n}")
    case("take_along_axis", [a, np.zeros((3, 2), "uint8")], a[:, [0, 0]], label="narrow")
    case("take_along_axis", [a, np.zeros((2, 7), "int64")], None, params={"axis": 1}, label="shapes")
    case("take_along_axis", [a, np.full((3, 1), 7)], None, label="out of range")
    cases[-1]["raises"] = True


def reshaping():
    pairs = [((12,), (3, 4)), ((3, 4), (12,)), ((3, 4), (2, 6)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, 12)), ((6, 4), (8, 3)),
             ((5, 6, 7), (30, 7)), ((5, 6, 7), (5, 42)), ((5, 6, 7), (210,)), ((210,), (5, 6, 7)), ((4, 9), (2, 2, 3, 3)),
             ((2, 2, 3, 3), (4, 9)), ((1, 5, 1), (5,)), ((5,), (1, 5, 1)), ((1, 1), ()), ((), (1, 1)), ((0, 3), (3, 0, 2)),
             ((4, 1, 6), (2, 2, 1, 3, 2)), ((7, 11), (77,)), ((77,), (7, 11)), ((7, 11), (11, 7)), ((2, 3, 5, 7), (6, 35)),
             ((2, 3, 5, 7), (10, 21)), ((3, 4), (3, 4)), ((10, 3, 4), (5, 2, 12))]
    for k, (before, after) in enumerate(pairs):
        x = values("int16", before, special=False)
        case("reshape", [x], x.reshape(after), params={"shape": list(after)}, layout=LAYOUTS[k % 4], label=f"{before} {after}")
    x = values("int16", (4, 6))
    for shape in [[-1], [-1, 3], [2, -1, 2], -1]:
        case("reshape", [x], x.reshape(shape), params={"shape": shape}, label=str(shape))
    for shape in [[5, 5], [-1, -1], [-1, 5], [24, -2]]:
        case("reshape", [x], None, params={"shape": shape}, label=str(shape))
    case("reshape", [x], None, label="no shape")


def accumulating():
    for name, ufunc in [("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)]:
        for t in ALL:
            for j, (shape, axis) in enumerate([((9,), None), ((4, 7), 0), ((4, 7), -1), ((3, 1, 5), 2), ((0, 3), 0)]):
                a = values(t, shape, small=True, special=False)
                if name == "cumulative_prod" and t in FLOATS + COMPLEX:
                    a = (np.sign(a.real) * (0.9 + np.abs(a) % 0.2)).astype(t)
                accumulate(name, ufunc, a, axis, layout=LAYOUTS[j % 4], label=f"{t} {shape} {axis}")
        for t, (shape, axis) in itertools.product(["int8", "uint64", "float32", "float64", "complex64"],
                                                  [((9000,), 0), ((5000, 3), 0), ((2, 4500), 1), ((4097,), 0)]):
            a = values(t, shape, small=True, special=False)
            if name == "cumulative_prod" and t in FLOATS + COMPLEX:
                a = (np.sign(a.real) * (0.999 + np.abs(a) % 0.002)).astype(t)
            accumulate(name, ufunc, a, axis, layout="contiguous", label=f"long {t} {shape} {axis}")
    a = values("int16", (3, 4), small=True)
    case("cumulative_sum", [a], np.cumsum(a, 1, "float32"), params={"axis": 1, "dtype": "float32"})
    first = np.concatenate([np.zeros((3, 1), "int64"), np.cumsum(a, 1)], 1)
    case("cumulative_sum", [a], first, params={"axis": 1, "include_initial": True})
    case("cumulative_prod", [a], np.concatenate([np.ones((1, 4), "int64"), np.cumprod(a, 0)]), params={"axis": 0, "include_initial": True})
    case("cumulative_sum", [a], None, label="axis is needed")
    case("cumulative_sum", [np.array(2)], None, label="no axes")
    case("cumulative_sum", [a], None, params={"axis": 0, "dtype": "bool"}, label="to bool")


def accumulate(name, ufunc, a, axis, **more):
    wide = a.astype({"f": "float64", "c": "complex128"}.get(a.dtype.kind, a.dtype))
    expected = ufunc(wide, axis=axis)
    if a.dtype.kind in "fc":
        expected = expected.astype(a.dtype)
    exact = a.dtype.kind in "biu"
    scale = 0.0 if exact or not a.size else float(np.abs(wide).sum() if name == "cumulative_sum" else np.abs(expected).max())
    case(name, [a], expected, params={"axis": axis}, ulps=0 if exact else 64, scale=scale, **more)


def histograms():
    for t in BOOL + INTS + FLOATS:
        for j, shape in enumerate([(300,), (17, 20), (5, 1, 9), (), (1,)]):
            a = values(t, shape, small=True, special=False)
            counted = a.astype("uint8") if t == "bool" else a
            for params in [{}, {"bins": 7}, {"bins": 5, "range": [-3, 4]}, {"bins": [-5, 0, 1, 2.5, 9]}, {"bins": 4, "density": True}]:
                low, high = (np.float32(v) if t == "float32" else v for v in params.get("range", (counted.min(), counted.max())))
                hist, edges = np.histogram(counted, **{**params, **({} if isinstance(params.get("bins"), list) else {"range": (low, high)})})
                hist = hist if params.get("density") else hist.astype("int64")
                # Edges in the type of the elements, which NumPy 2 has.
                edges = edges.astype("float32" if t == "float32" and not isinstance(params.get("bins"), list) else "float64")
                exact = t != "float32"  # whose edges round otherwise here
                if exact:
                    case("histogram", [a], hist, params=params, layout=LAYOUTS[j % 4], label=f"{t} {shape} {params}", ulps=4 if params.get("density") else 0)
                case("histogram", [a], edges, params=params, layout=LAYOUTS[j % 4], label=f"{t} {shape} {params}", output=1, ulps=2,
                     scale=float(np.abs(edges).max()))
    nan = np.array([1.0, np.nan, 2.0, np.inf, -7])
    case("histogram", [nan], np.histogram(nan, bins=3, range=(0, 3))[0], params={"bins": 3, "range": [0, 3]}, label="NaN")
    case("histogram", [nan], None, label="no range")
    cases[-1]["raises"] = True
    case("histogram", [np.zeros(0)], np.zeros(10, "int64"), label="empty")
    case("histogram", [np.zeros(0)], np.linspace(0, 1, 11), label="empty", output=1)
    a = values("float64", (50,))
    for params in [{"bins": 0}, {"bins": [1]}, {"bins": [2, 1]}, {"range": [2, 1]}, {"range": 3}, {"bins": "auto"}]:
        case("histogram", [a], None, params=params, label=str(params))


def ordering():
    for t in ALL:
        for layout, (shape, axis) in zip(LAYOUTS, [((40,), -1), ((7, 9), 0), ((7, 9), 1), ((2, 3, 5), 1)]):
            a = values(t, shape)
            case("sort", [a], np.sort(a, axis), params={"axis": axis}, layout=layout, label=f"{t} {shape} {axis}", ulps=1 if a.dtype.kind in "fc" else 0)
            case("sort", [a], np.flip(np.sort(a, axis), axis), params={"axis": axis, "descending": True}, label=f"{t} {shape} {axis} down",
                 ulps=1 if a.dtype.kind in "fc" else 0)
    case("sort", [np.array(1)], None, label="no axes")
    for t in ["int8", "uint16", "int64", "float64"]:
        for j, shape in enumerate([(33,), (6, 7), (3, 4, 5)]):
            a = values(t, shape, small=True, special=False)
            for axis, keepdims in [(None, False), (0, False), (-1, True), (list(range(len(shape))), True)]:
                spread = tuple(axis) if isinstance(axis, list) else axis
                for method, q in itertools.product(["linear", "lower", "higher", "midpoint", "nearest"], [0.3, [0.0, 0.5, 0.77, 1.0]]):
                    expected = np.quantile(a, q, axis=spread, keepdims=keepdims, method=method)
                    expected = expected.astype(t if method in ("lower", "higher") else "float64")
                    case("quantile", [a], expected, params={"q": q, "axis": axis, "keepdims": keepdims, "method": method},
                         layout=LAYOUTS[j % 4], label=f"{t} {shape} {axis} {method} {q}", ulps=4)
    a = values("float32", (30,), small=True, special=False)
    case("quantile", [a], np.quantile(a.astype("float64"), 0.25).astype("float32"), params={"q": 0.25}, ulps=2)
    case("quantile", [a], np.quantile(a.astype("float64"), [0.25]), params={"q": [0.25]}, ulps=2)
    nan = np.array([[1.0, np.nan, 3], [4, 5, 6]])
    case("quantile", [nan], np.quantile(nan, 0.5, axis=1), params={"q": 0.5, "axis": 1}, label="NaN")
    case("quantile", [nan], np.quantile(nan, 0.5), params={"q": 0.5}, label="NaN")
    for params in [{}, {"q": 1.5}, {"q": [0.5, -0.1]}, {"q": 0.5, "method": "median"}]:
        case("quantile", [a], None, params=params, label=str(params))
    case("quantile", [a.astype("complex64")], None, params={"q": 0.5}, label="complex")


def indexing():
    a = values("float64", (12, 7, 5))
    keys = ["2:10:3, ..., None, -1", "...", ":", "3", "-1", "None", "..., None", "0, 0, 0", "::-1", "::-1, ::-1, ::-1",
            "10:2:-3", "-3:", ":-3", "-100:100", "100:", "5:2", "5:5, 1:3", ":, 4:1:-1, ::2", "1:9:2, None, 1:6:3, None, 4",
            "..., 0", "0, ..., 0", "None, 0, None, ..., None", "-1:-100:-1", ":0:-1", "7::-5", "::100", "11:3:-100",
            " 1 : 5 , ... ", "2,", "+2:+4", "9223372036854775807:", ":-9223372036854775808:-9223372036854775808"]
    for key in keys:
        case("getitem", [a], eval(f"a[{key}]"), params={"key": key}, label=key)  # Python itself reads the key
    case("getitem", [a], a[4], params={"key": 4})
    for key in ["12", "-13", "0, 0, 0, 0", "..., ...", "::0", "x", "", "1,,2", "1.5", "1:2:3:4", "99999999999999999999",
                "True", "[1, 2]", ",", "1 2"]:
        case("getitem", [a], None, params={"key": key}, label=f"bad key {key}")
    case("getitem", [a], None, label="no key")
    empty = np.zeros((0, 3), "int8")
    for key in [":", "::-1", "..., 1", "1:5, None"]:
        case("getitem", [empty], eval(f"empty[{key}]"), params={"key": key}, label=f"empty {key}")
    case("getitem", [empty], None, params={"key": "0"}, label="empty 0")
    case("getitem", [np.array(2.5)], np.array([[2.5]]), params={"key": "None, ..., None"})


def joining():
    a, b, c = values("int16", (4, 3), True), values("float32", (2, 3), True), values("uint8", (5, 3), True)
    case("concat", [a, b, c], np.concatenate([a, b, c]), label="types")
    case("concat", [a], a)
    case("concat", [a, np.zeros((0, 3), "int16"), a], np.concatenate([a, a]), label="empty one")
    case("concat", [a[0], c[0]], np.concatenate([a[0], c[0]]), params={"axis": None})
    case("concat", [a, b], None, params={"axis": 1}, label="shapes")
    case("concat", [a, a[0]], None, label="ranks")
    case("concat", [a, a], None, params={"axis": None}, label="not flat")
    case("concat", [np.array(1), np.array(2)], None, label="no axes")
    case("concat", [a, 3], None, label="a number")
    for axis in [0, 1, 2, -1]:
        case("stack", [a, a * 2, a[::-1]], np.stack([a, a * 2, a[::-1]], axis), params={"axis": axis}, label=str(axis))
    case("stack", [np.array(1.5), np.array(2)], np.array([1.5, 2]), label="0-d")
    case("stack", [a, b], None, label="shapes")
    case("stack", [a, a], None, params={"axis": 3}, label="axis")
    few = np.array([1, -2, 0], "int8")
    case("take", [values("float32", (6,), special=False), few], None, params={"axis": 1}, label="axis")
    x = values("float32", (6,), special=False)
    case("take", [x, few], x[few])
    case("take", [x, few.astype("uint16") % 6], x[few.astype("uint16") % 6])
    case("take", [a, few], None, label="axis is needed")
    case("take", [a, few.astype("float32")], None, params={"axis": 0}, label="float indices")
    case("take", [a, np.zeros((0,), "int64")], a[[]], params={"axis": 0}, label="no indices")
    for bad in [np.array([0, 6]), np.array([-7]), np.array([2**64 - 1], "uint64")]:
        case("take", [x, bad], None, label=f"index {bad}")
        cases[-1]["raises"] = True


elementwise()
conversions()
reductions()
creation()
movement()
searching()
data_dependent()
rearranging()
accumulating()
histograms()
ordering()
json.dump({"seed": SEED, "numpy": np.__version__, "cases": cases}, open(sys.argv[1], "w"), allow_nan=False)
open(sys.argv[2], "wb").write(bytes(blob))
print(f"{len(cases)} cases, seed {SEED}, NumPy {np.__version__}")
