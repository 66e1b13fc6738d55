"""How well a key answers a query.

All scores but the additive one are a dot product of transformed queries and keys; the additive one also compares
transformed queries and keys.  ``factors`` gives these to the kernels.  Each score also says its own definition step by
step, and pulls gradients back through its transform.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any, ClassVar

import numpy as np

from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Array, brief, check_layout, device, dtype_name, host, is_float, is_number, kind, plain, shown

Parts = Iterator[tuple[str, str, str, Array]]
"""Steps as (name, formula, axes, array); the last one is the scores."""
Pulled = tuple[Array, Array, dict[str, Array]]
"""Gradients of q, of k, and of the parameters by name."""


class Score:
    """A function of q (…, T, Dq) and k (…, S, Dk) that gives scores (…, T, S)."""

    identity = False
    """Whether q and k are compared as they are."""

    def check(self, Dq: int, Dk: int) -> None:
        """Raise unless queries and keys of these widths can be compared."""
        if Dq != Dk:
            raise ShapeError(
                f"q has width {Dq} but k has {Dk}: this score compares equal widths, "
                "overt.bilinear(weight) and overt.additive(…) compare different ones"
            )

    def steps(self, xp: Any, q: Array, k: Array) -> Parts:
        """The definition, every intermediate in order."""
        raise NotImplementedError

    def pairs(self, xp: Any, q: Array, k: Array) -> Array:
        """Score of each q (…, Dq) with its k (…, Dk), one to one: (…)."""
        *_, (_, _, _, scores) = self.steps(xp, q[..., None, :], k[..., None, :])
        return scores[..., 0, 0]

    def factors(self, xp: Any, q: Array, k: Array) -> tuple[Array, Array, float]:
        """What is compared, q′ (…, T, D) and k′ (…, S, D), and the scale of the result."""
        raise NotImplementedError

    def pull(self, xp: Any, q: Array, k: Array, gradient: Array) -> Pulled:
        """Gradients of q, k and the parameters from the gradient (…, T, S) of the scores."""
        raise NotImplementedError

    def pull_factors(self, xp: Any, q: Array, k: Array, dq: Array, dk: Array) -> Pulled:
        """Gradients of q, k and the parameters from those of q′ and k′."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Product(Score):
    """scale · q′ k′ᵀ of transformed q′ and k′."""

    scale: float | None
    identity = True
    # Of which steps the scores are a product.
    formula: ClassVar[str] = "q kᵀ"

    def __repr__(self) -> str:
        return "dot()" if self.scale == 1 else f"scaled_dot({'' if self.scale is None else self.scale})"

    def factors(self, xp: Any, q: Array, k: Array) -> tuple[Array, Array, float]:
        scale = (1 / sqrt(q.shape[-1]) if q.shape[-1] else 1.0) if self.scale is None else self.scale
        return q, k, scale

    def transforms(self, xp: Any, q: Array, k: Array) -> Parts:
        """The steps from q and k to q′ and k′."""
        yield from ()

    def steps(self, xp: Any, q: Array, k: Array) -> Parts:
        yield from self.transforms(xp, q, k)
        left, right, scale = self.factors(xp, q, k)
        scores = xp.matmul(left, xp.matrix_transpose(right))
        yield "scores", self.formula, "T S", scores
        if scale != 1 or self.scale is None:
            by = f"/ √{q.shape[-1]}" if self.scale is None else f"· {scale:.6g}"
            yield "scaled", f"scores {by}", "T S", scores * scale

    def pull(self, xp: Any, q: Array, k: Array, gradient: Array) -> Pulled:
        left, right, scale = self.factors(xp, q, k)
        gradient = gradient * scale
        dq, dk = xp.matmul(gradient, right), xp.matmul(xp.matrix_transpose(gradient), left)
        return self.pull_factors(xp, q, k, dq, dk)

    def pull_factors(self, xp: Any, q: Array, k: Array, dq: Array, dk: Array) -> Pulled:
        return dq, dk, {}


@dataclass(frozen=True, eq=False)
class Cosine(Product):
    """scale · cos(q, k)."""

    identity = False
    formula = "(unit query) (unit key)ᵀ"

    def __repr__(self) -> str:
        return f"cosine({self.scale})"

    def factors(self, xp: Any, q: Array, k: Array) -> tuple[Array, Array, float]:
        assert self.scale is not None
        return _unit(xp, q)[0], _unit(xp, k)[0], self.scale

    def transforms(self, xp: Any, q: Array, k: Array) -> Parts:
        yield "unit query", "q / ‖q‖", "T D", _unit(xp, q)[0]
        yield "unit key", "k / ‖k‖", "S D", _unit(xp, k)[0]

    def pull_factors(self, xp: Any, q: Array, k: Array, dq: Array, dk: Array) -> Pulled:
        return _pull_unit(xp, q, dq), _pull_unit(xp, k, dk), {}


@dataclass(frozen=True, eq=False)
class Bilinear(Product):
    """q W kᵀ."""

    weight: Array
    identity = False
    formula = "(projected query) kᵀ"

    def __repr__(self) -> str:
        return f"bilinear({brief(self.weight)})"

    def check(self, Dq: int, Dk: int) -> None:
        if tuple(self.weight.shape) != (Dq, Dk):
            raise ShapeError(
                f"bilinear weight has shape {tuple(self.weight.shape)}, but q has width {Dq} and k {Dk}: "
                f"give ({Dq}, {Dk})"
            )

    def factors(self, xp: Any, q: Array, k: Array) -> tuple[Array, Array, float]:
        assert self.scale is not None
        return _projected(xp, q, _like(xp, self.weight, q)), k, self.scale

    def transforms(self, xp: Any, q: Array, k: Array) -> Parts:
        yield "projected query", "q W", "T D", self.factors(xp, q, k)[0]

    def pull_factors(self, xp: Any, q: Array, k: Array, dq: Array, dk: Array) -> Pulled:
        into = {"weight": _outer(xp, q, dq)}
        return _projected(xp, dq, _like(xp, self.weight, q).T), dk, into


@dataclass(frozen=True, eq=False)
class Additive(Score):
    """vᵀ tanh(W_q q + W_k k + b): the one score that is no dot product."""

    query_weight: Array
    key_weight: Array
    v: Array
    bias: Array | None

    def __repr__(self) -> str:
        weights = [self.query_weight, self.key_weight, self.v, *([] if self.bias is None else [self.bias])]
        return f"additive({', '.join(map(brief, weights))})"

    def check(self, Dq: int, Dk: int) -> None:
        for name, weight, letter, width in (
            ("query_weight", self.query_weight, "q", Dq),
            ("key_weight", self.key_weight, "k", Dk),
        ):
            if weight.shape[1] != width:
                raise ShapeError(
                    f"additive {name} has shape {tuple(weight.shape)}, but {letter} has width {width}: "
                    f"give (A, {width})"
                )

    def factors(self, xp: Any, q: Array, k: Array) -> tuple[Array, Array, float]:
        query = _projected(xp, q, _like(xp, self.query_weight, q).T)
        if self.bias is not None:
            query = query + _like(xp, self.bias, q)
        return query, _projected(xp, k, _like(xp, self.key_weight, q).T), 1.0

    def steps(self, xp: Any, q: Array, k: Array) -> Parts:
        query, key, _ = self.factors(xp, q, k)
        yield "projected query", "q W_qᵀ" if self.bias is None else "q W_qᵀ + b", "T A", query
        yield "projected key", "k W_kᵀ", "S A", key
        yield from self._compared(xp, query, key, "projected ")

    def _compared(self, xp: Any, query: Array, key: Array, made: str = "") -> Parts:
        hidden = xp.tanh(query[..., :, None, :] + key[..., None, :, :])
        yield "hidden", f"tanh({made}query + {made}key)", "T S A", hidden
        # The values are v.
        yield "scores", "hidden · v_a", "T S", xp.matmul(hidden, _like(xp, self.v, query)[:, None])[..., 0]

    def pull(self, xp: Any, q: Array, k: Array, gradient: Array) -> Pulled:
        query, key, _ = self.factors(xp, q, k)
        hidden = xp.tanh(query[..., :, None, :] + key[..., None, :, :])
        inner = gradient[..., None] * (1 - hidden * hidden) * _like(xp, self.v, q)
        dq, dk, into = self.pull_factors(xp, q, k, xp.sum(inner, axis=-2), xp.sum(inner, axis=-3))
        into["v"] = _over_all(xp, gradient[..., None] * hidden)
        return dq, dk, into

    def pull_factors(self, xp: Any, q: Array, k: Array, dq: Array, dk: Array) -> Pulled:
        into = {"query_weight": _outer(xp, dq, q), "key_weight": _outer(xp, dk, k)}
        if self.bias is not None:
            into["bias"] = _over_all(xp, dq)
        query_weight, key_weight = (_like(xp, weight, q) for weight in (self.query_weight, self.key_weight))
        return _projected(xp, dq, query_weight), _projected(xp, dk, key_weight), into


class Projected(Additive):
    """vᵀ tanh(q + k) of queries and keys that are projected already."""

    identity = True

    def __init__(self, v: Array) -> None:
        _axes("additive v", v, "(A,)", 1)
        super().__init__(None, None, v, None)

    def __repr__(self) -> str:
        return f"additive of projected queries and keys, v {brief(self.v)}"

    def check(self, Dq: int, Dk: int) -> None:
        if Dq != Dk or Dq != self.v.shape[0]:
            raise ShapeError(f"projected q, k and v share the axis A, but have {Dq}, {Dk} and {self.v.shape[0]}")

    def factors(self, xp: Any, q: Array, k: Array) -> tuple[Array, Array, float]:
        return q, k, 1.0

    def steps(self, xp: Any, q: Array, k: Array) -> Parts:
        return self._compared(xp, q, k)

    def pull_factors(self, xp: Any, q: Array, k: Array, dq: Array, dk: Array) -> Pulled:
        return dq, dk, {}


def dot() -> Score:
    """q kᵀ.  Luong et al. 2015 (arXiv:1508.04025), "dot"."""
    return Product(1.0)


def scaled_dot(scale: float | None = None) -> Score:
    """scale · q kᵀ, by default 1/√D, which keeps the variance of the scores at 1.  Vaswani et al. 2017, equation 1."""
    return Product(None if scale is None else _finite("scale", scale))


def cosine(scale: float = 1.0) -> Score:
    """scale · cos(q, k); a zero vector has cosine 0 with everything."""
    return Cosine(_finite("scale", scale))


def bilinear(weight: Array) -> Score:
    """q W kᵀ with weight (Dq, Dk).  Luong et al. 2015 (arXiv:1508.04025), "general"."""
    _axes("bilinear weight", weight, "(Dq, Dk)", 2)
    return Bilinear(1.0, weight)


def additive(query_weight: Array, key_weight: Array, v: Array, bias: Array | None = None) -> Score:
    """v · tanh(W_q q + W_k k + b) with query_weight (A, Dq), key_weight (A, Dk), v (A,), bias (A,).

    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2.
    """
    _axes("additive query_weight", query_weight, "(A, Dq)", 2)
    _axes("additive key_weight", key_weight, "(A, Dk)", 2)
    _axes("additive v", v, "(A,)", 1)
    A = v.shape[0]
    for name, weight in (("query_weight", query_weight), ("key_weight", key_weight)):
        if weight.shape[0] != A:
            raise ShapeError(f"additive {name} has {weight.shape[0]} rows but v has {A}: all share the axis A")
    if bias is not None:
        _axes("additive bias", bias, "(A,)", 1)
        if bias.shape[0] != A:
            raise ShapeError(f"additive bias has {bias.shape[0]} numbers but v has {A}: all share the axis A")
    return Additive(query_weight, key_weight, v, bias)


def as_score(score: Any) -> Score:
    """What ``score=`` accepts: one of these scores."""
    if isinstance(score, Score):
        return score
    raise DtypeError(f"score must be one of overt's scores, e.g. overt.scaled_dot(), not {kind(score)}")


def _finite(name: str, value: float) -> float:
    try:
        number = float(value) if is_number(value) else inf
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise ArgumentError(f"{name} must be a finite number, not {shown(value)}")
    return number


def _axes(name: str, array: Array, axes: str, ndim: int) -> None:
    check_layout(name, array)
    shape = getattr(array, "shape", ())
    if len(shape) != ndim:
        shape = tuple(shape)
        raise ShapeError(f"{name} must be an array {axes}, not {f'shape {shape}' if shape else shown(array)}")
    plain(name, array)
    if not is_float(array):
        raise DtypeError(f"{name} must be floats, not {dtype_name(array)}: convert it with astype")


def _like(xp: Any, weight: Array, q: Array) -> Array:
    """A parameter in the library, on the device and in the dtype in which the scores are computed."""
    # What is in the library already passes through, gradients and all.
    if xp is np:
        if type(weight) is np.ndarray and weight.dtype == q.dtype:
            return weight
        weight = host("a weight of the score", weight)
    elif isinstance(weight, np.ndarray):
        weight = xp.asarray(weight, device=device(q))
    return xp.astype(weight, q.dtype, copy=False)


def _projected(xp: Any, x: Array, matrix: Array) -> Array:
    """x (…, N, I) times a matrix (I, O)."""
    if xp is not np or not x.flags.c_contiguous or not x.size:
        return xp.matmul(x, matrix)
    # One product, where NumPy makes one for each head.
    return np.matmul(x.reshape(-1, x.shape[-1]), matrix).reshape(*x.shape[:-1], matrix.shape[1])


def _outer(xp: Any, left: Array, right: Array) -> Array:
    """Sum of the outer products of the vectors in (…, N, I) and (…, N, J): (I, J)."""
    product = xp.matmul(xp.matrix_transpose(left), right)
    return xp.sum(product, axis=tuple(range(product.ndim - 2)))


def _over_all(xp: Any, x: Array) -> Array:
    """Sum over all axes but the last."""
    return xp.sum(x, axis=tuple(range(x.ndim - 1)))


def _unit(xp: Any, x: Array) -> tuple[Array, Array]:
    """Vectors of length 1, and the lengths they had."""
    if not x.shape[-1]:
        return x, xp.sum(x, axis=-1, keepdims=True)
    # Squares of large numbers overflow, and those of small ones vanish.
    largest = xp.max(xp.abs(x), axis=-1, keepdims=True)
    some = xp.where(largest > 0, largest, xp.ones_like(largest))
    near_one = x / some
    norm = xp.sqrt(xp.sum(near_one * near_one, axis=-1, keepdims=True))
    return near_one / xp.where(norm > 0, norm, xp.ones_like(norm)), norm * some


def _pull_unit(xp: Any, x: Array, gradient: Array) -> Array:
    unit, norm = _unit(xp, x)
    along = xp.sum(unit * gradient, axis=-1, keepdims=True)
    return xp.where(norm > 0, (gradient - unit * along) / xp.where(norm > 0, norm, xp.ones_like(norm)), 0 * gradient)
