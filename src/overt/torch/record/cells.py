"""Which cells of what was computed a tensor has, and what these tell of its axes: samples, heads and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from overt.torch.record.kernel import SILENT


class Made:
    """A tensor that was computed.

    features: its axes of features, where a map by parameters made it.  maker: the parameter.  rows: of what it was
    computed, where that had been moved.  axes: for each axis of the rows, which of its own has the same places, None
    for those that were mapped, which is the last where nothing is said, and ~a for one along which it was mixed.
    product: of which two it is one, where nobody's parameters were in it.
    told: whether it is known by what it was computed.
    """

    __slots__ = ("axes", "features", "maker", "product", "rows", "shape", "told")

    def __init__(
        self,
        shape: tuple[int, ...],
        features: tuple[int, ...] | None = None,
        maker: int | None = None,
        rows: Origin | None = None,
        axes: tuple[int | None, ...] | None = None,
        product: Product | None = None,
    ) -> None:
        self.shape, self.features, self.maker, self.rows, self.product = shape, features, maker, rows, product
        self.axes = axes
        self.told = features is not None or product is not None

    def behind(self) -> tuple[Origin | None, tuple[int | None, ...] | None]:
        """Its rows and their axes; of a product those of the first factor that a map by parameters gave."""
        if self.product is None or self.product.letters is None:
            return self.rows, self.axes
        out = self.product.letters[2]
        for x, own in zip(self.product.factors, self.product.letters, strict=False):
            if x is not None and ((first := next(made_of(x))).maker is not None or first.rows is not None):
                return x, tuple(out.index(a) if a in out else None for a in own)
        return None, None


class Moved:
    """A tensor that has cells of others, which stand among the arguments of a function; part: which of its results.

    told: whether it is known by what the first of these was computed.
    """

    __slots__ = ("args", "func", "kwargs", "part", "shape", "told")

    def __init__(
        self,
        shape: tuple[int, ...],
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        part: int | None,
    ) -> None:
        self.shape, self.func, self.args, self.kwargs, self.part = shape, func, args, kwargs, part
        first: Any = args[0] if args else None
        if type(first) in (tuple, list) and first:
            first = first[0]
        self.told: bool = first.told if type(first) in (Made, Moved) else False


Origin = Made | Moved


@dataclass(frozen=True)
class Operand:
    """A factor of a product: the axis of features, and for each leading axis of the product its own, None for none.

    rows: its axis of queries, where heads may stand there too.
    factor: where the origin is that of scores, which factor of the products that they were is meant, along their axes.
    """

    origin: Origin
    leading: tuple[int | None, ...]
    features: int | None
    rows: int | None = None
    factor: int | None = None


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two activations, and where it ran: its factors, and the axes of these and of itself as letters."""

    place: Any
    factors: tuple[Origin | None, ...] = ()
    letters: tuple[str, str, str] | None = None

    def operand(self, place: int, axes: Sequence[int | None], rows: int | None = None) -> Operand | None:
        """A factor, along axes of the product, with one of queries; None where these are not known."""
        origin = self.factors[place]
        if origin is None or self.letters is None:
            return None
        own, out = self.letters[place], self.letters[2]
        summed = [i for i, a in enumerate(own) if a not in out]
        chosen = [None if i is None or out[i] not in own else own.index(out[i]) for i in (*axes, rows)]
        return Operand(origin, tuple(chosen[:-1]), summed[-1] if summed else None, chosen[-1])

    def summed(self, place: int) -> int | None:
        """The axis of a factor that the product sums over, None for none or several."""
        if self.letters is None:
            return None
        found = [i for i, a in enumerate(self.letters[place]) if a not in self.letters[2]]
        return found[0] if len(found) == 1 else None


# Numbers that tell heads, and numbers that tell samples; whether it is certain that these do.
_Told = tuple[list[np.ndarray], list[np.ndarray], bool]
# Which places of an axis are which query and which head, (T, H).
Rows = list[list[int]]


class UnknownError(Exception):
    """Nothing tells where cells come from."""


# What does not go with places of cells is not followed.
FAILED = RuntimeError, TypeError, ValueError, IndexError, AttributeError, UnknownError


def in_order(order: np.ndarray, leading: tuple[int, ...]) -> bool:
    """Whether the last of several leading axes holds the heads."""
    return order.shape[1] == (leading[-1] if len(leading) > 1 else 1) and bool((np.diff(order.ravel()) == 1).all())


def order_of(leading: tuple[int, ...], operands: Sequence[Operand]) -> np.ndarray | None:
    """Samples and heads (B, H), by all operands together; one head only if that is certain."""
    n = prod(leading)
    keys = [found for x in operands if (found := keys_of(leading, x, True)) is not None]
    heads, samples = [x for own, _, _ in keys for x in own], [x for _, own, _ in keys for x in own]
    each = list(zip(*samples, strict=True)) if samples else [()] * n
    within = list(zip(*heads, strict=True)) if heads else [()] * n
    # Of those that have cells in common nothing tells what they are.
    if len(set(zip(each, within, strict=True))) < n:
        return None
    groups: dict[Any, list[int]] = {}
    for i, sample in enumerate(each):
        groups.setdefault(sample, []).append(i)
    # The heads of each sample are in the order that those of the first have.
    first = {within[i]: place for place, i in enumerate(next(iter(groups.values())))}
    order = [sorted(rows, key=lambda i: first.get(within[i], n + i)) for rows in groups.values()]
    even = len({len(rows) for rows in order}) == 1
    return np.array(order) if even and (len(order[0]) > 1 or all(certain for *_, certain in keys)) else None


def keys_of(leading: tuple[int, ...], operand: Operand, folded: bool = False) -> _Told | None:
    """Numbers that tell heads, and numbers that tell samples, along axes; whether it is certain that these do.

    folded: whether the axes hold samples and heads alone, so that features that were rows of a map are heads.
    """
    made: list[tuple[int, Made]] = []
    try:
        with SILENT(), torch.no_grad():
            known: dict[int, Any] = {}
            both = (picked(_whole(operand, i, made, known), operand, i) for i in (0, 1))
            first, next_ = (x.expand(leading).reshape(-1).numpy() for x in both)
            return _told(first, next_, made, folded)
    except FAILED:
        return None


def rows_of(operands: Sequence[Operand]) -> Rows | None:
    """Which places of an axis of queries are which query and which head, (T, H); None where nothing tells.

    Where features are what is compared with keys, and not what is summed over, they are no heads.
    """
    one = operands[0]
    n = 1 if one.rows is None or len(operands) > 1 else one.origin.shape[one.rows]
    one = replace(one, leading=(one.rows,))
    found = keys_of((n,), one) if n > 1 else None
    heads, samples = ([any(map(differ, some)) for some in found[:2]]) if found is not None else (False, False)
    if not heads:
        return [] if samples else None
    order = order_of((n,), [one]) if sums_features(one) else None
    return [] if order is None or order.shape[1] == 1 else order.tolist()


def sums_features(operand: Operand) -> bool:
    """Whether a product sums over features of a factor."""
    made: list[tuple[int, Made]] = []
    known: dict[int, Any] = {}
    one = replace(operand, leading=())
    try:
        with SILENT(), torch.no_grad():
            two = torch.stack([picked(_whole(one, i, made, known), one, i) for i in (0, 1)]).numpy()
            heads, samples, _ = _told(two, two, made)
    except FAILED:
        return False
    return any(map(differ, heads)) and not any(map(differ, samples))


def _whole(operand: Operand, feature: int, made: list[tuple[int, Made]], known: dict[int, Any]) -> Tensor:
    """The cells of an operand; of scores those of a factor of their products, of one feature."""
    if operand.factor is None:
        return cells_of(operand.origin, made, known)
    laid: dict[int, Any] = {}
    for x in made_of(operand.origin):
        if x.product is None or x.product.letters is None or (origin := x.product.factors[operand.factor]) is None:
            raise UnknownError
        own, out = list(x.product.letters[operand.factor]), x.product.letters[2]
        cells = cells_of(origin, made, known)
        for i, a in reversed(list(enumerate(own))):
            if a not in out:
                # The last of them holds the features.
                cells = cells.select(i, min(feature, cells.shape[i] - 1) if all(b in out for b in own[i + 1 :]) else -1)
        own = [a for a in own if a in out]
        cells = cells.permute([own.index(a) for a in out if a in own])
        laid[id(x)] = cells[tuple(slice(None) if a in own else None for a in out)].expand(x.shape)
    return cells_of(operand.origin, [], laid)


def picked(cells: Tensor, operand: Operand, feature: int) -> Tensor:
    """One feature of the last token, along the leading axes of a product."""
    own = [a for a in operand.leading if a is not None]
    rest = [a for a in range(cells.ndim) if a not in own]
    cells = cells.permute(*own, *rest)
    for a in reversed(rest):
        cells = cells[..., min(feature, cells.shape[-1] - 1) if a == operand.features else -1]
    for i, axis in enumerate(operand.leading):
        if axis is None:
            cells = cells.unsqueeze(i)
    return cells


def _told(first: np.ndarray, second: np.ndarray, made: list[tuple[int, Made]], folded: bool = False) -> _Told:
    """The same of places of cells, those of the first feature and those of the second."""
    starts = np.array([start for start, _ in made])
    own = np.searchsorted(starts, first, "right") - 1
    kinds = [made[i][1] for i in np.unique(own)]
    if len({(x.shape, x.features) for x in kinds}) > 1:
        raise UnknownError
    one = kinds[0]
    places = np.unravel_index(first - starts[own], one.shape)
    features: Sequence[int] | None = one.features
    beside = np.unravel_index(np.clip(second - starts[own], 0, prod(one.shape) - 1), one.shape)
    if features is None:
        features = [a for a in range(len(one.shape)) if (places[a] != beside[a]).any()] or [len(one.shape) - 1]
    heads, rest = [places[a] for a in features], [x for a, x in enumerate(places) if a not in features]
    if len(kinds) > 1:
        makers = {x.maker for x in kinds}
        if None in makers or 1 < len(makers) < len(kinds):
            raise UnknownError
        # Maps of their own make heads, and one map of several things makes samples.
        (heads if len(makers) > 1 else rest).append(own)
        return heads, rest, one.maker is not None
    # A map that makes heads has levels before it, unless they were split from one thing.
    makes, levels = any(map(differ, heads)), one.axes is None and one.rows is not None and len(one.shape) > 3
    found, certain = None, one.maker is not None and not levels
    if levels or (folded and not makes):
        try:
            found = _told_before(one, (places, beside), folded, makes)
        except FAILED:
            if levels and not makes:
                raise
    if found is None or (makes and not any(map(differ, found[0]))):
        return heads, rest, certain
    return heads + found[0], found[1], certain


def _told_before(
    one: Made, places: Sequence[Sequence[np.ndarray]], folded: bool, makes: bool
) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
    """The same by what something was computed of; None where that is not known.

    places: of its cells, those of the first feature and those of the second.
    """
    rows, axes = one.behind()
    if rows is None:
        return None
    inner: list[tuple[int, Made]] = []
    cells = cells_of(rows, inner, {}).numpy()
    if makes and len(inner) > 1:
        return None
    axes = axes or (*range(cells.ndim - 1), None)
    if any(a is not None and a < 0 and differ(places[0][~a]) for a in axes):
        raise UnknownError
    both = [
        cells[
            tuple(np.minimum(i if a is None else at[max(a, ~a)], n - 1) for a, n in zip(axes, cells.shape, strict=True))
        ]
        for i, at in enumerate(places)
    ]
    heads, samples, _ = _told(both[0], both[1], inner, folded)
    # Where features were mapped as well, those that were rows are heads, and else they are what was mixed.
    mapped = np.array([x[:1] for x in both])
    mixes = any(map(differ, _told(mapped, mapped, inner)[1]))
    return ([], samples + heads) if mixes else (heads, samples)


def differ(x: np.ndarray) -> bool:
    """Whether numbers are not all the first of them."""
    return bool((x != x[:1]).any())


def cells_of(origin: Origin, made: list[tuple[int, Made]], known: dict[int, Any]) -> Tensor:
    """For each cell its place among those of all tensors that were made."""
    if id(origin) in known:
        return known[id(origin)]
    if isinstance(origin, Made):
        start = 0 if not made else made[-1][0] + prod(made[-1][1].shape)
        stop = start + prod(origin.shape)
        made.append((start, origin))
        cells = torch.arange(start, stop, dtype=torch.int32 if stop < 2**31 else torch.int64).view(origin.shape)
    else:
        own = _with_cells(origin.args, made, known)
        kwargs = {name: _with_cells(x, made, known) for name, x in origin.kwargs.items()}
        try:
            result = origin.func(*own, **kwargs)
        except RuntimeError:
            # A cast, or something that was computed, may have laid them in order before.
            result = origin.func(*(x.contiguous() if isinstance(x, Tensor) else x for x in own), **kwargs)
        cells = result if origin.part is None else result[origin.part]
    if not isinstance(cells, Tensor) or tuple(cells.shape) != origin.shape:
        raise UnknownError
    known[id(origin)] = cells
    return cells


def made_of(origin: Any) -> Iterator[Made]:
    """The tensors that were computed, of which a tensor holds cells."""
    if isinstance(origin, Made):
        yield origin
    elif isinstance(origin, Moved):
        yield from made_of((*origin.args, *origin.kwargs.values()))
    elif isinstance(origin, tuple | list):
        for x in origin:
            yield from made_of(x)


def _with_cells(x: Any, made: list[tuple[int, Made]], known: dict[int, Any]) -> Any:
    if isinstance(x, Made | Moved):
        return cells_of(x, made, known)
    if isinstance(x, Tensor):
        return x.cpu()
    return type(x)(_with_cells(y, made, known) for y in x) if type(x) in (tuple, list) else x


def signature_of(operands: Sequence[Operand]) -> Iterator[Any]:
    """What was done, in words that are the same for layers that do the same."""
    numbers: dict[Any, int] = {}
    scored = False

    def told(x: Any) -> Any:
        if isinstance(x, Made):
            maker = None if x.maker is None else numbers.setdefault(("maker", x.maker), len(numbers))
            rows, axes = (x.rows, x.axes) if scored or x.product is None else x.behind()
            return x.shape, x.features, maker, numbers.setdefault(x, len(numbers)), told(rows), axes
        if isinstance(x, Moved):
            return x.shape, x.func, told(x.args), told(sorted(x.kwargs.items())), x.part
        if isinstance(x, Tensor):
            return tuple(x.shape), x.cpu().numpy().tobytes()
        return tuple(map(told, x)) if type(x) in (tuple, list) else x if type(x) in (int, str) else repr(x)

    def own(x: Operand) -> Any:
        nonlocal scored
        # Of scores the factors are told by themselves.
        scored = x.factor is not None
        origin, scored = told(x.origin), False
        products = (y.product for y in made_of(x.origin)) if x.factor is not None else ()
        factors = tuple(None if y is None else (y.letters, told(y.factors[x.factor])) for y in products)  # type: ignore[index]
        return origin, x.leading, x.features, x.rows, x.factor, factors

    return map(own, operands)
