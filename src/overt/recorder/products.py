"""Contractions of two arrays, whatever they are written as: matrix products, einsums, products that are summed."""

from __future__ import annotations

import ast
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from overt.recorder.flow import CASTS, VIEWS, masklike, moving, sums_to_one
from overt.recorder.operations import Operation

_MATRICES = {"matmul", "mm", "bmm", "mv", "baddbmm", "addmm", "addbmm", "addmv"}
TIMES = {"mul", "multiply", "rmul", "imul"}
_CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
SUMMED = {"sum", "reduce_sum", "nansum"}


@dataclass(frozen=True, eq=False)
class Product:
    """A contraction of two arrays, axis by axis: labels of the left, of the right and of the result."""

    number: int
    left: np.ndarray
    right: np.ndarray
    result: np.ndarray
    sources: tuple[int | None, int | None]
    origins: tuple[str, str]
    labels: tuple[str, str, str]

    @property
    def batch(self) -> str:
        """Axes that all three have."""
        left, right, result = self.labels
        return "".join(a for a in result if a in left and a in right)

    @property
    def summed(self) -> str:
        """Axes that the result does not have."""
        left, right, result = self.labels
        return "".join(a for a in left if a in right and a not in result)

    @property
    def rows(self) -> str:
        """Axes of the left and of the result alone."""
        left, right, result = self.labels
        return "".join(a for a in result if a in left and a not in right)

    @property
    def columns(self) -> str:
        """Axes of the right and of the result alone."""
        left, right, result = self.labels
        return "".join(a for a in result if a in right and a not in left)

    @property
    def width(self) -> int:
        """How many products are summed."""
        return prod(self.left.shape[self.labels[0].index(a)] for a in self.summed)

    def turned(self) -> Product:
        """Left and right exchanged."""
        left, right, result = self.labels
        both = self.sources[::-1], self.origins[::-1]
        return Product(self.number, self.right, self.left, self.result, *both, (right, left, result))

    def form(self, x: np.ndarray, labels: str, *groups: str) -> np.ndarray:
        """x (axes by labels) as (batch, *groups): one axis a group."""
        order = self.batch + "".join(groups)
        sizes = [prod(x.shape[labels.index(a)] for a in group) for group in groups]
        return np.transpose(x, [labels.index(a) for a in order]).reshape(-1, *sizes)

    @cached_property
    def queries(self) -> np.ndarray:
        """The left, (batch, rows, width)."""
        return self.form(self.left, self.labels[0], self.rows, self.summed)

    @cached_property
    def keys(self) -> np.ndarray:
        """The right, (batch, columns, width)."""
        return self.form(self.right, self.labels[1], self.columns, self.summed)

    @cached_property
    def normal(self) -> list[int]:
        """Axes along which the left sums to 1: each by itself, or those that are summed over together."""
        axes = [self.labels[0].index(a) for a in self.summed]
        found = sums_to_one(self.left)
        if len(axes) < 2 or found:
            return found
        others = [n for n in range(self.left.ndim) if n not in axes]
        whole = self.left.transpose(others + axes).reshape(*(self.left.shape[n] for n in others), -1)
        return axes if whole.ndim - 1 in sums_to_one(whole) else []

    @property
    def output(self) -> np.ndarray:
        """The result, (batch, rows, columns)."""
        return self.form(self.result, self.labels[2], self.rows, self.columns)


def contracted(operations: Sequence[Operation], number: int) -> Product | None:
    """The contraction that an operation is, if it can be one at all."""
    return product(operations, number) if _maybe(operations[number]) else None


def product(operations: Sequence[Operation], number: int) -> Product | None:
    """The contraction that an operation is, None where it is none."""
    operation = operations[number]
    if operation.name in SUMMED:
        return _summed_up(operations, number)
    if len(operation.operands) < 2:
        return None
    places = (0, 1)
    if operation.name in ("baddbmm", "addmm", "addbmm", "addmv") and len(operation.operands) == 3:
        places = (1, 2)
    left, right = (operation.operands[i] for i in places)
    if operation.name in _CONVOLUTIONS:
        # Of single positions it is a matrix product of the channels.
        if right.ndim != left.ndim or right.shape[1] != left.shape[1] or right[0, 0].size > 1:
            return None
        right = right.reshape(right.shape[:2])
    labels = labels_of(operation, left, right)
    if labels is None:
        return None
    one, two, out = labels
    # An axis of size 1 that an einsum sums away by itself is none.
    left, one = _without(left, one, two + out)
    right, two = _without(right, two, one + out)
    labels = one, two, out
    # Axes of size 1 that meet longer ones are as long as these.
    sizes = {a: n for axes, x in ((one, left), (two, right)) for a, n in sorted(zip(axes, x.shape, strict=True))}
    for axes, x in ((one, left), (two, right)):
        sizes |= {a: max(n, sizes[a]) for a, n in zip(axes, x.shape, strict=True)}
    try:
        left = np.broadcast_to(left, [sizes[a] for a in one])
        right = np.broadcast_to(right, [sizes[a] for a in two])
    except ValueError:
        return None
    if operation.host.shape != tuple(sizes[a] for a in out):
        return None
    return _product(operation, number, (left, right), places, labels)


def _without(array: np.ndarray, axes: str, others: str) -> tuple[np.ndarray, str]:
    """An array and its letters without the axes of size 1 that nothing else has."""
    alone = tuple(i for i, (a, n) in enumerate(zip(axes, array.shape, strict=True)) if n == 1 and a not in others)
    return array.squeeze(alone), "".join(a for i, a in enumerate(axes) if i not in alone)


def learned(operations: Sequence[Operation], scores: Product, side: int, axes: str, data: Sequence[bool]) -> bool:
    """Whether axes of one side of a contraction are those of parameters, as of classes, that it was multiplied with."""
    source = scores.sources[side]
    made = None if source is None else contracted(operations, source)
    if made is None:
        return False
    labels = {made.labels[2][scores.labels[side].index(a)] for a in axes}
    owner = 0 if labels <= set(made.rows) else 1
    return labels <= {*made.rows, *made.columns} and not moving(made, data)[owner]


def made_of(operations: Sequence[Operation], number: int | None, *, to_products: bool = False) -> set[int]:
    """The operations that something is made of, it among them; as far as the next products, if only to these."""
    seen, open_ = set[int](), [number]
    while open_:
        one = open_.pop()
        if one is not None and one not in seen:
            seen.add(one)
            open_ += [] if to_products and contracted(operations, one) else operations[one].sources
    return seen


def _product(
    operation: Operation,
    number: int,
    both: tuple[np.ndarray, np.ndarray],
    places: tuple[int, int],
    labels: tuple[str, str, str],
) -> Product | None:
    one, two, out = labels
    alone = [a for a in one + two if a not in out and not (a in one and a in two)]
    if alone or any(len(set(axes)) < len(axes) for axes in labels) or not set(one) & set(two) - set(out):
        return None
    a, b = places
    return Product(
        number, *both, operation.host, (operation.sources[a], operation.sources[b]),
        (operation.origins[a], operation.origins[b]), labels,
    )  # fmt: skip


def labels_of(operation: Operation, left: np.ndarray, right: np.ndarray) -> tuple[str, str, str] | None:
    """A letter for each axis of the left, the right and the result of a contraction; None where it is none."""
    name, x, y = operation.name, left.ndim, right.ndim
    letters = string.ascii_lowercase
    if name == "linear" and y == 2 and x:
        return letters[: x - 1] + "z", "yz", letters[: x - 1] + "y"
    if name in _CONVOLUTIONS:
        return "az" + letters[1 : x - 1], "yz", "ay" + letters[1 : x - 1]
    if name == "einsum":
        return _equation(operation.detail, x, y)
    if name == "dot_general":
        (one, two), (first, second) = ast.literal_eval(operation.detail)
        axes_left, axes_right = list(letters[:x]), list(letters[x : x + y])
        for i, j in [*zip(one, two, strict=True), *zip(first, second, strict=True)]:
            axes_right[j] = axes_left[i]
        batch = [axes_left[i] for i in first]
        rest = [a for i, a in enumerate(axes_left) if i not in (*one, *first)]
        rest += [a for j, a in enumerate(axes_right) if j not in (*two, *second)]
        return "".join(axes_left), "".join(axes_right), "".join(batch + rest)
    if not x or not y:
        return None
    if name in _MATRICES or (name in ("dot", "inner", "vdot") and max(x, y) <= (2 if name == "dot" else 1)):
        # Axes in front are counted from the end.
        front = letters[: max(x, y, 2) - 2]
        one_axes = front[len(front) - (x - 2) :] + "xz" if x > 1 else "z"
        two_axes = front[len(front) - (y - 2) :] + "zy" if y > 1 else "z"
        return one_axes, two_axes, front + "x" * (x > 1) + "y" * (y > 1)
    if name in ("tensordot", "inner", "dot"):
        # Which axes meet is read off the numbers.
        for i in range(x):
            for j in range(y):
                if left.shape[i] == right.shape[j]:
                    made = np.tensordot(left, right, (i, j))
                    if made.shape == operation.host.shape and np.allclose(made, operation.host, rtol=1e-4):
                        axes_left, axes_right = list(letters[:x]), list(letters[x : x + y])
                        axes_right[j] = axes_left[i]
                        kept = [a for a in axes_left + axes_right if a != axes_left[i]]
                        return "".join(axes_left), "".join(axes_right), "".join(kept)
    return None


def _equation(equation: str, x: int, y: int) -> tuple[str, str, str] | None:
    left, arrow, out = equation.partition("->")
    if left.count(",") != 1:
        return None
    if not arrow:
        out = "".join(sorted(a for a in set(left) - {","} if left.count(a) == 1))
    one, two = left.split(",")
    more = max(x - len(one) + 3 if "..." in one else 0, y - len(two) + 3 if "..." in two else 0)
    spare = "ⒶⒷⒸⒹⒺⒻ"[:more]
    filled = []
    for axes, n in ((one, x), (two, y), (out, None)):
        own = more if n is None else n - len(axes) + 3
        filled.append(axes.replace("...", spare[len(spare) - own :] if own else ""))
    return (filled[0], filled[1], filled[2]) if (len(filled[0]), len(filled[1])) == (x, y) else None


def _summed_up(operations: Sequence[Operation], number: int) -> Product | None:
    """A product entry by entry that is then summed over axes, as one contraction."""
    operation = operations[number]
    source = operation.sources[0] if operation.sources else None
    while source is not None and operations[source].name in CASTS:
        source = operations[source].sources[0]
    if source is None:
        return None
    times, whole = operations[source], operations[source].host
    if whole.shape != operation.operands[0].shape or whole.ndim < 1 or not whole.size:
        return None
    # Axes that are put together, or taken apart, beside the sum are still those of the product.
    laid = source
    while operations[laid].name in VIEWS and (before := operations[laid].sources[0]) is not None:
        if not np.array_equal(operations[before].host.ravel(), whole.ravel()):
            break
        laid = before
    axes = None
    if laid != source and operations[laid].name in TIMES:
        axes = _axes(operations[laid].host, operation.host)
        times, whole = (operations[laid], operations[laid].host) if axes else (times, whole)
    if times.name not in TIMES or len(times.operands) != 2:
        # A sum of one array is a product with ones.
        ones = np.ones(whole.shape[-1])
        times = replace(operation, operands=(operation.operands[0], ones), sources=(source, None), origins=("", "ones"))
    axes = axes or _axes(whole, operation.host)
    if axes is None:
        return None
    letters = string.ascii_lowercase[: whole.ndim]
    parts, labels = [], []
    for x in times.operands:
        full = x.reshape((1,) * (whole.ndim - x.ndim) + x.shape)
        if any(n not in (1, m) for n, m in zip(full.shape, whole.shape, strict=True)):
            # What was multiplied lies otherwise by now.
            return None
        own = [i for i in range(whole.ndim) if full.shape[i] == whole.shape[i] and (whole.shape[i] > 1 or i in axes)]
        parts.append(full.reshape([whole.shape[i] for i in own]))
        labels.append("".join(letters[i] for i in own))
    out = "".join(letters[i] for i in range(whole.ndim) if i not in axes and letters[i] in labels[0] + labels[1])
    if not set(labels[0]) & set(labels[1]) - set(out):
        return None
    sizes = [whole.shape[letters.index(a)] for a in out]
    shaped = Operation(
        operation.name, times.sources, times.operands, operation.array, operation.host.reshape(sizes), operation.line,
        "", times.origins,
    )  # fmt: skip
    return _product(shaped, number, (parts[0], parts[1]), (0, 1), (labels[0], labels[1], out))


def _axes(whole: np.ndarray, result: np.ndarray) -> tuple[int, ...] | None:
    """The axes, one or two, over which an array was summed to a result, in whatever form."""
    groups = (group for n in (1, 2) for group in combinations(range(whole.ndim), n))
    for group in groups:
        total = whole.sum(axis=group)
        # NaN is the sum of what has NaN, but all of it is that of anything.
        same = total.size == result.size and np.isfinite(result).any()
        if same and np.allclose(total.ravel(), result.ravel(), rtol=1e-4, atol=1e-7, equal_nan=True):
            return group
    return None


def outer_sum(operation: Operation, number: int) -> Product | None:
    """What one thing says of a row and another of a key, added up (GAT): the product of (x, 1) and (1, y).

    Or their difference, as of a kernel (Nadaraya 1964), where each has an axis of its own.  What hides says nothing.
    """
    if len(operation.operands) != 2 or not operation.host.size:
        return None
    if any(masklike(x) and x.min() < 0 for x in operation.operands):
        return None
    whole, letters = operation.host, string.ascii_lowercase[: operation.host.ndim]
    parts, labels, differs = [], [], "sub" in operation.name
    for place, x in enumerate(operation.operands):
        full = x.reshape((1,) * (whole.ndim - x.ndim) + x.shape)
        own = [i for i in range(whole.ndim) if full.shape[i] == whole.shape[i] > 1]
        term = full.reshape([whole.shape[i] for i in own])
        term = -term if place and differs else term
        parts.append(np.stack([term, np.ones_like(term)][:: -1 if place else 1], -1))
        labels.append("".join(letters[i] for i in own) + "z")
    one, two = map(set, labels)
    if one == two or len(one) < 2 or len(two) < 2 or (differs and (one <= two or two <= one)):
        return None
    out = "".join(a for a, n in zip(letters, whole.shape, strict=True) if n > 1)
    shaped = replace(operation, host=whole.reshape([n for n in whole.shape if n > 1]))
    return _product(shaped, number, (parts[0], parts[1]), (0, 1), (labels[0], labels[1], out))


def _maybe(operation: Operation) -> bool:
    """Whether an operation can be a contraction at all."""
    name = operation.name
    known = {"einsum", "dot", "inner", "vdot", "tensordot", "dot_general", "linear"} | _MATRICES | SUMMED
    # Heads that are wider than all there is have no features.
    whole = all(x.size for x in operation.operands)
    return (name in known or name in _CONVOLUTIONS) and operation.host.dtype.kind == "f" and whole
