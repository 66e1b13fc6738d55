"""Attention, and what is built of it: the open result, the trace and merging."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from overt import kernels
from overt.attended import Attended, engine
from overt.biases import Bias
from overt.dropout import Dropout
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Array, ArrayT, dtype_name, is_float, kind, plain
from overt.interchange import is_tensor, lent, warn_of_quadratic
from overt.masks import Mask
from overt.problem import Problem, namespace
from overt.scores import Product, Score, scaled_dot
from overt.trace import CodeTrace, Trace, trace_code
from overt.trace import trace as trace_problem

_SCALED_DOT = scaled_dot()


def attention(
    q: ArrayT,
    k: ArrayT,
    v: ArrayT,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = None,
) -> ArrayT:
    """Mix the values that each query may see: softmax(q kᵀ/√D) v.

    q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) → (…, H, T, E), in the dtype of q: float16, bfloat16, float32 or
    float64, the same for all three.  Leading axes broadcast; query head h reads key head h // (H/G); arrays (T, D),
    (S, D), (S, E) without a heads axis are one head.

    score: how a key answers a query, by default ``scaled_dot()``.
    mask: an overt mask or a boolean array that broadcasts to (…, H, T, S); True = may attend.
    bias: added to the scores after the softcap: an array that broadcasts to (…, H, T, S), ``alibi``, ``relative``, or a
    sum of these, of which ``Gradient.bias`` is a tuple, in the order of the terms.
    softcap: scores become softcap · tanh(scores / softcap).
    sinks: (H,) logits that join the softmax's denominator and take no value.
    dropout: ``overt.dropout(rate, seed)``, for training.
    num_threads: for this call, by default what ``overt.set_num_threads`` says; no result depends on it.

    Arrays are NumPy's, tensors of torch (``overt.torch.attention``), or those of any library of the array API standard.
    What lies in the CPU's memory is computed there without a copy and handed back in its library; the rest, and what a
    library traces or differentiates, takes the definition, in memory quadratic in length.

    A query that may see no key gets zeros, and what stands behind a mask never reaches the output.
    Raises ShapeError, DtypeError or ArgumentError.  Vaswani et al. 2017 (arXiv:1706.03762), equation 1.
    """
    if type(score) is Product and bias is softcap is sinks is dropout is None:
        y = kernels.plain(q, k, v, score.scale, mask, num_threads)
        if y is not None:
            return y
    options = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks, "dropout": dropout}
    if is_tensor(q):
        return _of_tensors().attention(q, k, v, **options, num_threads=num_threads)
    problem = _problem(q, k, v, options, num_threads)
    return problem.outward(engine(problem).forward(problem)[0])


class Options(TypedDict, total=False):
    """What ``attention`` takes beside its arrays and threads."""

    score: Score
    mask: Mask | Array | None
    bias: Bias | Array | None
    softcap: float | None
    sinks: Array | None
    dropout: Dropout | None


# The lse of an array of a half type, and what else is no output, is of another dtype.
@overload
def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, num_threads: int | None = None, **options: Unpack[Options]
) -> Attended[np.ndarray[Any, Any]]: ...
@overload
def attend(
    q: ArrayT, k: ArrayT, v: ArrayT, *, num_threads: int | None = None, **options: Unpack[Options]
) -> Attended[ArrayT]: ...
def attend(
    q: Array,
    k: Array,
    v: Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = None,
) -> Attended:
    """The same operation as ``attention``, kept open: output, lse, weights, received, entropy, top, map, gradient.

    Received and entropy are mostly computed along with the output, for a tenth to a third of its time.
    All else is computed when it is asked for: q, k, v and the arrays of the mask and the bias must not change while the
    result is in use.
    Tensors of torch give an ``overt.torch.Attended``, whose output and lse are differentiable.
    """
    options = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks, "dropout": dropout}
    if is_tensor(q):
        return _of_tensors().attend(q, k, v, **options, num_threads=num_threads)
    return Attended(_problem(q, k, v, options, num_threads))


def _problem(q: Array, k: Array, v: Array, options: dict[str, Any], num_threads: int | None) -> Problem:
    """What is asked of arrays, as NumPy sees them where that takes no copy and loses nothing."""
    # Small calls feel the longer question.
    found = None if type(q) is np.ndarray else lent(q, k, v)
    if found is None:
        problem = Problem.of(q, k, v, **options, num_threads=num_threads)
        if problem.xp is not np:
            warn_of_quadratic(problem.shape, "what NumPy cannot read is computed by the definition")
        return problem
    arrays, back = found
    return replace(Problem.of(*arrays, **options, num_threads=num_threads), back=back)


def _of_tensors() -> Any:
    # It imports torch, and so waits until somebody has a tensor.  torch.compile knows this way to wait and no other.
    from overt import torch

    return torch


@overload
def trace(q: np.ndarray, k: np.ndarray, v: np.ndarray, **options: Unpack[Options]) -> Trace[np.ndarray[Any, Any]]: ...
@overload
def trace(q: ArrayT, k: ArrayT, v: ArrayT, **options: Unpack[Options]) -> Trace[ArrayT]: ...
@overload
def trace(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CodeTrace: ...
def trace(*args: Any, **options: Any) -> Trace:
    """Every intermediate in order, each with its numbers, mean and variance: of attention, or of your own code.

    ``trace(q, k, v, score=…, mask=…, bias=…, softcap=…, sinks=…, dropout=…)`` takes what ``attention`` takes, and gives
    the steps of the definition with their formulas and axes, those that are asked for: query, key, what the score does
    to them, scores, scaled, capped, biased, masked, lse, weights, dropped, value, output.

    ``trace(function, *args, **kwargs)`` calls a function, a module or anything else that can be called, of NumPy,
    torch, JAX or lists of numbers, and gives each operation on arrays with the line of code that did it, a
    ``CodeTrace``.  It is called once, and up to twice more, with all that it does besides, where nothing is seen to be
    done with arrays, it is given lists, or it makes arrays of another library of those of NumPy that it is given.
    Where it attends, steps say what they are: queries, keys, scores, masked, weights, values, output.

    Memory is that of all intermediates together, quadratic in length: this is for reading.  Raises ArgumentError for
    anything else, and what ``attention`` raises.
    """
    if args and callable(args[0]):
        return trace_code(*args, **options)
    if len(args) + sum(name in options for name in "qkv") != 3:
        raise ArgumentError("trace takes q, k and v, or what can be called and then its arguments")
    return _trace(*args, **options)


def _trace(
    q: Array,
    k: Array,
    v: Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
) -> Trace:
    return trace_problem(
        Problem.of(q, k, v, score=score, mask=mask, bias=bias, softcap=softcap, sinks=sinks, dropout=dropout)
    )


def merge(parts: Iterable[tuple[ArrayT, ArrayT]]) -> tuple[ArrayT, ArrayT]:
    """Attention over the union of disjoint key sets, from the output (…, T, E) and lse (…, T) of each.

    Gives (output, lse): the output in the dtype that all parts share, lse float32, or float64 where an array is so.
    Sinks, if any, belong to one of the parts.  Raises ArgumentError for no parts, DtypeError for outputs of several
    dtypes and ShapeError for parts of different shapes.  Rabe & Staats 2021 (arXiv:2112.05682).
    """
    if not hasattr(type(parts), "__iter__"):
        raise DtypeError(f"merge takes pairs (output, lse), such as (seen.output, seen.lse), not {kind(parts)}")
    arrays: dict[str, Array] = {}
    # What goes wrong while the caller's own code gives the parts is the caller's to see.
    for i, pair in enumerate(parts):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DtypeError(f"part {i} is no pair (output, lse), such as (seen.output, seen.lse)")
        for name, x in zip((f"output {i}", f"lse {i}"), pair, strict=True):
            arrays[name] = plain(name, x)
    if not arrays:
        raise ArgumentError("merge got no parts: give at least one pair (output, lse)")
    xp = namespace(**arrays)
    first = arrays["output 0"]
    for name, x in arrays.items():
        if not is_float(x):
            raise DtypeError(f"{name} is {dtype_name(x)}, not floats")
        shape = first.shape if name.startswith("output") else first.shape[:-1]
        if tuple(x.shape) != tuple(shape):
            raise ShapeError(
                f"{name} has shape {tuple(x.shape)}, but output 0 has {tuple(first.shape)}: give outputs of "
                f"one shape (…, T, E), each with its lse (…, T)"
            )
        if name.startswith("output") and x.dtype != first.dtype:
            raise DtypeError(
                f"{name} is {dtype_name(x)}, but output 0 is {dtype_name(first)}: convert them to one dtype"
            )
    wide = xp.float64 if any(dtype_name(x) == "float64" for x in arrays.values()) else xp.float32
    outputs, lses = ([xp.astype(x, wide) for x in [*arrays.values()][i::2]] for i in (0, 1))
    lses = xp.stack(lses)
    top = xp.max(lses, axis=0)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    shares = xp.exp(lses - top)
    total = xp.sum(shares, axis=0)
    some = xp.where(total == 0, xp.ones_like(total), total)
    mixed = xp.zeros_like(outputs[0])
    for i, y in enumerate(outputs):
        # What a part without keys says has no weight, whatever it is.
        said = xp.where(shares[i, ..., None] > 0, y, xp.zeros_like(y))
        mixed = mixed + said * (shares[i, ...] / some)[..., None]
    lse = xp.where(total == 0, xp.zeros_like(total) - xp.inf, top + xp.log(some))
    return xp.astype(mixed, first.dtype), lse
