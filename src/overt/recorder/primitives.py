"""The primitives of JAX in NumPy, so that nothing is compiled to be done once.

What is not here is done by JAX itself.  Sums and products of 16-bit numbers are made of float32, as XLA makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, prod
from typing import Any

import numpy as np


def compute(equation: Any, values: Sequence[Any], drawn: bool = False) -> list[Any]:
    """The results of an equation of a jaxpr for arrays.

    drawn: keys of random numbers are numbers of 64 bits, and other numbers are drawn with them than JAX draws.
    """
    name, kinds = equation.primitive.name, [one.aval.dtype for one in equation.outvars]
    function = _PRIMITIVES.get(name) or (_DRAWN.get(name) if drawn else None)
    if function is not None and all(isinstance(x, np.ndarray) for x in values):
        with np.errstate(all="ignore"):
            made = function(*values, **equation.params)
        if made is not None:
            return [np.asarray(made, kinds[0] if isinstance(kinds[0], np.dtype) else None)]
    given = [back(variable.aval, x) for variable, x in zip(equation.invars, values, strict=True)]
    found = equation.primitive.bind(*given, **equation.params)
    return [host(x, drawn) for x in (found if equation.primitive.multiple_results else [found])]


def host(x: Any, drawn: bool = False) -> Any:
    """An array of JAX, or a number, as one of NumPy; keys of random numbers as they are, or as numbers."""
    if isinstance(getattr(x, "dtype", np.dtype(float)), np.dtype):
        return np.asarray(x)
    return _wrap(np.asarray(x._base_array)) if drawn else x


def back(kind: Any, x: Any) -> Any:
    """An array of JAX again, of a kind; keys are keys there."""
    import jax

    if not isinstance(x, np.ndarray):
        return x
    is_key = not isinstance(kind.dtype, np.dtype)
    return jax.random.wrap_key_data(jax.numpy.asarray(_unwrap(x))) if is_key else jax.numpy.asarray(x)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iub" else x


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: np.ndarray, *, axes: Sequence[int], **_: Any) -> Any:
        return function(_wide(x), axis=tuple(axes))

    return reduce


def _running(function: Any) -> Callable[..., Any]:
    def run(x: np.ndarray, *, axis: int, reverse: bool) -> Any:
        if reverse:
            return np.flip(function.accumulate(np.flip(_wide(x), axis), axis), axis)
        return function.accumulate(_wide(x), axis)

    return run


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values, **_: function(*values)


def _divide(x: np.ndarray, y: np.ndarray, **_: Any) -> Any:
    return x / y if x.dtype.kind not in "iu" else None


def _broadcast(
    x: np.ndarray, *sizes: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any
) -> np.ndarray:
    placed = [1] * len(shape)
    for axis, n in zip(broadcast_dimensions, x.shape, strict=True):
        placed[axis] = n
    return np.broadcast_to(x.reshape(placed), shape)


def _iota(*sizes: Any, dtype: Any, shape: Sequence[int], dimension: int, **_: Any) -> np.ndarray:
    line = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(line.reshape([-1 if i == dimension else 1 for i in range(len(shape))]), shape)


def _slice(
    x: np.ndarray, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None
) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _starts(x: np.ndarray, at: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Where a slice begins that must lie inside, and where it ends."""
    firsts = [min(max(int(i), 0), n - size) for i, n, size in zip(at, x.shape, sizes, strict=True)]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


def _updated(x: np.ndarray, new: np.ndarray, *at: np.ndarray) -> np.ndarray:
    made = x.copy()
    made[_starts(x, at, new.shape)] = new
    return made


def _select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    return np.where(which, cases[1], cases[0]) if which.dtype == bool else np.choose(which, cases)


def _pad(x: np.ndarray, fill: np.ndarray, *, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    if min(min(one) for one in padding_config) < 0:
        return None
    inside = [max(0, (n - 1) * (gap + 1) + 1) for n, (_, _, gap) in zip(x.shape, padding_config, strict=True)]
    made = np.full([low + n + high for n, (low, high, _) in zip(inside, padding_config, strict=True)], fill, x.dtype)
    made[tuple(slice(low, low + n, gap + 1) for n, (low, _, gap) in zip(inside, padding_config, strict=True))] = x
    return made


def _dot(x: np.ndarray, y: np.ndarray, *, dimension_numbers: Any, **_: Any) -> np.ndarray:
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    x_free, y_free = ([i for i in range(a.ndim) if i not in (*some, *batch)]
                      for a, some, batch in ((x, x_sum, x_batch), (y, y_sum, y_batch)))  # fmt: skip
    batch, rows, columns = [x.shape[i] for i in x_batch], [x.shape[i] for i in x_free], [y.shape[i] for i in y_free]
    inner = prod(x.shape[i] for i in x_sum)
    left = _wide(x).transpose([*x_batch, *x_free, *x_sum]).reshape(prod(batch), prod(rows), inner)
    right = _wide(y).transpose([*y_batch, *y_sum, *y_free]).reshape(prod(batch), inner, prod(columns))
    return np.matmul(left, right).reshape([*batch, *rows, *columns])


def _bitcast(x: np.ndarray, *, new_dtype: Any) -> Any:
    return x.view(new_dtype) if np.dtype(new_dtype).itemsize == x.dtype.itemsize else None


_ELEMENTS: Mapping[str, Callable[..., Any]] = {
    "neg": np.negative, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "expm1": np.expm1,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: 1 / (1 + np.exp(-x)), "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "is_finite": np.isfinite, "not": np.invert, "square": np.square, "copy": np.copy, "copy_p": np.copy,
    "stop_gradient": np.copy, "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply,
    "max": np.maximum, "min": np.minimum, "pow": np.power, "atan2": np.arctan2, "rem": np.fmod, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift,
    "nextafter": np.nextafter, "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}  # fmt: skip
_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    **{name: _plain(function) for name, function in _ELEMENTS.items()},
    "div": _divide,
    "erf": lambda x, **_: np.vectorize(erf, otypes=[float])(x),
    "integer_pow": lambda x, *, y: x**y if y >= 0 else 1 / x**-y,
    "shift_right_logical": lambda x, n: x >> n if x.dtype.kind == "u" else None,
    "bitcast_convert_type": _bitcast,
    "convert_element_type": lambda x, *, new_dtype, **_: x.astype(new_dtype),
    "select_n": _select,
    "broadcast_in_dim": _broadcast,
    "reshape": lambda x, *_, new_sizes, **__: x.reshape(new_sizes),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "squeeze": lambda x, *, dimensions: x.squeeze(tuple(dimensions)),
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "concatenate": lambda *parts, dimension: np.concatenate(parts, dimension),
    "slice": _slice,
    "dynamic_slice": lambda x, *at, slice_sizes: x[_starts(x, at, slice_sizes)],
    "dynamic_update_slice": _updated,
    "pad": _pad,
    "iota": _iota,
    "reduce_sum": _reduced(np.sum), "reduce_prod": _reduced(np.prod), "reduce_max": _reduced(np.max),
    "reduce_min": _reduced(np.min), "reduce_and": _reduced(np.all), "reduce_or": _reduced(np.any),
    "argmax": lambda x, *, axes, **_: np.argmax(x, axes[0]), "argmin": lambda x, *, axes, **_: np.argmin(x, axes[0]),
    "cumsum": _running(np.add), "cumprod": _running(np.multiply), "cummax": _running(np.maximum),
    "dot_general": _dot,
}  # fmt: skip


def _wrap(x: np.ndarray, **_: Any) -> np.ndarray:
    return np.asarray(x, order="C").view(np.uint64)[..., 0]


def _unwrap(x: np.ndarray, **_: Any) -> np.ndarray:
    return np.asarray(x, order="C")[..., None].view(np.uint32)


def _words(keys: np.ndarray, more: np.ndarray, shape: Sequence[int], kind: Any) -> np.ndarray:
    """Numbers of a shape for each key, with another number that goes with it."""
    some = [np.random.default_rng([int(key), int(one)]).integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)
            for key, one in np.nditer([keys, more.astype(np.uint64)])]  # fmt: skip
    return np.reshape(some, (*np.broadcast_shapes(keys.shape, more.shape), *shape))


def _split(keys: np.ndarray, *, shape: Sequence[int]) -> np.ndarray:
    return _words(keys, np.asarray(1), shape, np.uint64)


def _bits(keys: np.ndarray, *, bit_width: int, shape: Sequence[int]) -> np.ndarray:
    return _words(keys, np.asarray(2), shape, np.dtype(f"u{bit_width // 8}"))


def _error_inverse(x: np.ndarray) -> np.ndarray:
    """To two parts in a thousand (Winitzki 2008)."""
    log = np.log1p(-np.square(np.clip(x, -1 + 1e-7, 1 - 1e-7)))
    half = 2 / (np.pi * 0.147) + log / 2
    return np.sign(x) * np.sqrt(np.sqrt(half**2 - log / 0.147) - half)


# What draws numbers, and nobody looks at these one by one.
_DRAWN: Mapping[str, Callable[..., Any]] = {
    "random_wrap": _wrap,
    "random_unwrap": _unwrap,
    "random_seed": lambda x, **_: x.astype(np.uint64),
    "random_split": _split,
    "random_fold_in": lambda keys, more: _words(keys, more, (), np.uint64),
    "random_bits": _bits,
    "erf_inv": _error_inverse,
}
