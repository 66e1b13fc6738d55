"""Where the cells of a tensor come from, while it is split, moved and joined: what tells samples from heads.

Nothing is computed on the way.  What was done is noted, and done once more, when somebody asks, with the places of
cells in the place of numbers: along heads the features of what was split are others, along samples they are not.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter, functional

from overt.torch.record.kernel import SILENT

# What only moves cells, or chooses some along an axis, and what makes of each cell one at the same place; others are
# known to torch as pointwise.
_MOVES = {
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "transpose", "permute", "swapaxes", "swapdims",
    "movedim", "moveaxis", "expand", "expand_as", "broadcast_to", "view_as", "reshape_as", "__getitem__", "T", "mT",
    "H", "mH",
    "repeat", "repeat_interleave", "tile", "narrow", "select", "diagonal", "t", "adjoint", "split", "split_with_sizes",
    "chunk", "tensor_split", "hsplit", "vsplit", "unbind", "cat", "concat", "concatenate", "stack", "hstack", "vstack",
    "unfold", "roll", "flip", "topk", "sort",
}  # fmt: skip
_SAME = {
    "to", "type", "type_as", "float", "half", "bfloat16", "double", "contiguous", "detach", "cpu", "cuda", "dropout",
    "normalize", "layer_norm", "rms_norm", "softmax", "truediv", "rdiv", "rtruediv",
}  # fmt: skip
# After these a tensor is another than it was.
_OTHERS = {
    "copy_",
    "set_",
    "resize_",
    "resize_as_",
    "transpose_",
    "swapaxes_",
    "swapdims_",
    "t_",
    "unsqueeze_",
    "squeeze_",
}
_MAPS = {"linear", "conv1d", "conv2d", "conv3d", "einsum", "matmul", "__matmul__", "bmm"}
_PRODUCTS = {"matmul", "__matmul__", "linalg_matmul", "bmm", "baddbmm", "mm"}
_MOST = 4096
_LETTERS = "".join(map(chr, range(0x250, 0x2A0)))


class Made:
    """A tensor that was computed.

    features: its axes of features, where a map by parameters made it.  maker: the parameter.  rows: whose rows were
    mapped, where these had been moved.  product: of which two it is one, where nobody's parameters were in it.
    """

    __slots__ = ("features", "maker", "product", "rows", "shape")

    def __init__(
        self,
        shape: tuple[int, ...],
        features: tuple[int, ...] | None = None,
        maker: int | None = None,
        rows: Origin | None = None,
        product: Product | None = None,
    ) -> None:
        self.shape, self.features, self.maker, self.rows, self.product = shape, features, maker, rows, product


class Moved:
    """A tensor that has cells of others, which stand among the arguments of a function; part: which of its results."""

    __slots__ = ("args", "func", "kwargs", "part", "shape")

    def __init__(
        self,
        shape: tuple[int, ...],
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        part: int | None,
    ) -> None:
        self.shape, self.func, self.args, self.kwargs, self.part = shape, func, args, kwargs, part


Origin = Made | Moved


@dataclass(frozen=True)
class Operand:
    """A factor of a product: the axis of features, and for each leading axis of the product its own, None for none."""

    origin: Origin
    leading: tuple[int | None, ...]
    features: int | None


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two activations, and where it ran: its factors, and the axes of these and of itself as letters."""

    place: Any
    factors: tuple[Origin | None, ...] = ()
    letters: tuple[str, str, str] | None = None

    def operand(self, place: int, axes: Sequence[int | None]) -> Operand | None:
        """A factor, along axes of the product; None where these are not known."""
        origin = self.factors[place]
        if origin is None or self.letters is None:
            return None
        own, out = self.letters[place], self.letters[2]
        summed = [i for i, a in enumerate(own) if a not in out]
        chosen = tuple(None if i is None or out[i] not in own else own.index(out[i]) for i in axes)
        return Operand(origin, chosen, summed[-1] if summed else None)

    def summed(self, place: int) -> int | None:
        """The axis of a factor that the product sums over, None for none or several."""
        if self.letters is None:
            return None
        found = [i for i, a in enumerate(self.letters[place]) if a not in self.letters[2]]
        return found[0] if len(found) == 1 else None


class _Ref(weakref.ref[Tensor]):
    """A reference to a tensor that knows under which number it is kept."""

    __slots__ = ("key",)
    key: int


class _UnknownError(Exception):
    """Nothing tells where cells come from."""


class Origins:
    """Notes of what became of tensors; holds on to none."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Ref, Origin]] = {}
        self._orders: dict[Any, np.ndarray | None] = {}

        def forget(gone: Any, known: dict[int, tuple[_Ref, Origin]] = self._known) -> None:
            key: int = gone.key
            if key in known and known[key][0] is gone:
                del known[key]

        self._forget = forget

    def note(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Take note of one function, of those of which ``heeds`` knows."""
        kind = heeds[func]
        if kind == "same":
            self._same(args, result)
        elif kind == "other":
            self._known.pop(id(result), None)
        elif kind == "map":
            if func is functional.linear and len(args) > 1 and type(args[1]) is Parameter:
                # Most maps, and quickly.
                shape, known = tuple(result.shape), self._known.get(id(args[0]))
                moved = known[1] if known is not None and type(known[1]) is Moved and known[0]() is args[0] else None
                self._put(result, Made(shape, (len(shape) - 1,), id(args[1]), moved))
            elif isinstance(result, Tensor) and (made := self._map(func, args, result)) is not None:
                self._put(result, made)
        elif type(result) is Tensor:
            # Most of all: a view of one tensor.
            known = self._known.get(id(args[0])) if args else None
            origin = known[1] if known is not None and known[0]() is args[0] else None
            if origin is not None and not kwargs and not any(isinstance(x, Tensor | tuple | list) for x in args[1:]):
                self._put(result, Moved(tuple(result.shape), func, (origin, *args[1:]), kwargs, None))
            else:
                self._moves(func, args, kwargs, result)
        else:
            self._moves(func, args, kwargs, result)

    def _moves(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        if parts := [x for x in (result if isinstance(result, tuple | list) else [result]) if _plain(x)]:
            try:
                own = self._filled(args), {name: self._filled(x) for name, x in kwargs.items()}
            except _UnknownError:
                return
            several = isinstance(result, tuple | list)
            for place, x in enumerate(parts):
                self._put(x, Moved(tuple(x.shape), func, *own, place if several else None))

    def made(self, x: Tensor, product: Product | None = None) -> Origin | None:
        """Let a tensor be one that was computed, whatever its cells are."""
        if _plain(x):
            self._put(x, Made(tuple(x.shape), product=product))
        return self._entry(x)

    def of(self, x: Tensor) -> Origin | None:
        """Where the cells of a tensor come from; of one of which nothing is known, from itself."""
        return self._entry(x) or self.made(x)

    def order(self, leading: tuple[int, ...], operands: Sequence[Operand]) -> np.ndarray | None:
        """Which of the leading axes, flattened, are which sample and which head, (B, H).

        None where nothing tells, and where samples stand before heads as they should.
        """
        if prod(leading) < 2:
            return None
        certain: np.ndarray | None = None
        # One that tells heads will do, and samples that share something are told by all together.
        for some in (*([x] for x in operands), operands):
            key = leading, tuple(_signature(some))
            if key not in self._orders:
                if len(self._orders) > _MOST:
                    self._orders.clear()
                self._orders[key] = _order(leading, some)
            found = self._orders[key]
            certain = found if certain is None else certain
            if found is not None and found.shape[1] > 1:
                return None if _in_order(found, leading) else found
        return None if certain is None or _in_order(certain, leading) else certain

    def role(self, operand: Operand) -> str | None:
        """What an axis holds: "heads", "samples", which are all that are no heads, or None where nothing tells."""
        axis = operand.leading[0]
        n = 1 if axis is None else operand.origin.shape[axis]
        found = _keys((n,), operand) if n > 1 else None
        if found is None:
            return None
        heads, samples, _ = found
        several = [any(len(set(x.tolist())) > 1 for x in some) for some in (heads, samples)]
        return None if several[0] == several[1] else "heads" if several[0] else "samples"

    def source(self, origin: Origin, axis: int) -> tuple[Made, int] | None:
        """The tensor that was computed, and its axis, of which an axis holds the cells."""
        made: list[tuple[int, Made]] = []
        try:
            with SILENT(), torch.no_grad():
                cells = _picked(_cells(origin, made, {}), Operand(origin, (axis,), None), 0).numpy()
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, _UnknownError):
            return None
        if len(made) > 1:
            return None
        moves = [a for a, x in enumerate(np.unravel_index(cells, made[0][1].shape)) if len(set(x.tolist())) > 1]
        return (made[0][1], moves[0]) if len(moves) == 1 else None

    def features(self, origin: Origin | None, axis: int | None) -> bool:
        """Whether an axis holds features alone, and neither positions nor samples."""
        return origin is not None and axis is not None and self.role(Operand(origin, (axis,), axis)) == "heads"

    def mapped(self, origin: Origin, axis: int) -> bool:
        """Whether an axis holds features that a map by parameters made."""
        found = (origin, axis) if isinstance(origin, Made) else self.source(origin, axis)
        return found is not None and found[0].features is not None and found[1] in found[0].features

    def halves(self, origin: Origin | None, axis: int | None) -> tuple[tuple[Made, Product], list[int]] | None:
        """The product of which an axis holds cells, and those of its factors of which the axis holds the features."""
        # Most products are of maps.
        if origin is None or axis is None or all(x.product is None for x in _made(origin)):
            return None
        found = self.source(origin, axis)
        product = None if found is None else found[0].product
        if found is None or product is None:
            return None
        factors = [product.operand(i, [found[1]]) for i in (0, 1)]
        places = [i for i, x in enumerate(factors) if x is not None and self.features(x.origin, x.leading[0])]
        return ((found[0], product), places) if places else None

    def _put(self, x: Tensor, origin: Origin) -> None:
        ref = _Ref(x, self._forget)
        ref.key = id(x)
        self._known[ref.key] = ref, origin

    def _entry(self, x: Tensor) -> Origin | None:
        found = self._known.get(id(x))
        return found[1] if found is not None and found[0]() is x and found[1].shape == tuple(x.shape) else None

    def _filled(self, x: Any) -> Any:
        """Arguments with origins in the place of tensors."""
        if isinstance(x, Tensor):
            origin = self.of(x) if x.is_floating_point() or x.is_complex() else None
            if origin is None:
                raise _UnknownError
            return origin
        return type(x)(map(self._filled, x)) if type(x) in (tuple, list) else x

    def _same(self, args: Any, result: Any) -> None:
        """The cells of the first operand of this shape that was moved are those of what is made of it."""
        known = self._known
        for x in args:
            found = known.get(id(x))
            if found is None or not isinstance(x, Tensor) or found[0]() is not x:
                continue
            if isinstance(result, Tensor) and x.shape == result.shape:
                self._put(result, found[1])
                if type(found[1]) is Moved:
                    return

    def _map(self, func: Callable[..., Any], args: Any, result: Tensor) -> Made | None:
        name, shape = func.__name__, tuple(result.shape)
        tensors = [x for x in args if isinstance(x, Tensor)][:2]
        own = [learned(x) for x in tensors]
        if len(tensors) < 2 or not any(own):
            return None
        if own[1] and name == "linear":
            moved = self._entry(tensors[0])
            return Made(shape, (len(shape) - 1,), id(tensors[1]), moved if isinstance(moved, Moved) else None)
        if own[1] and name.startswith("conv"):
            return Made(shape, (len(shape) + 1 - tensors[1].ndim,), id(tensors[1]))
        if all(own):
            return None
        maker = id(tensors[own.index(True)])
        letters = terms(name, args, tensors[0], tensors[1], result)
        if letters is None:
            return None
        given, out = letters[own.index(False)], letters[2]
        return Made(shape, tuple(i for i, a in enumerate(out) if a not in given), maker)


class _Heeds(dict[Any, str]):
    """What a function is here: "move", "same", "map", "other", or nothing."""

    def __missing__(self, func: Any) -> str:
        if len(self) > _MOST:
            self.clear()
        name = func.__name__.partition(".")[0]
        if name == "__get__":
            # Of properties, those that turn a tensor.
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        found = "move" if name in _MOVES else "map" if name in _MAPS else "other" if name in _OTHERS else ""
        bare = name.strip("_")
        # Of operators there are some that have their factors in another order.
        names = bare, bare[1:] if name.startswith("__") else bare
        if not found and (names[0] in _SAME or names[1] in _SAME or any(map(_pointwise, names))):
            found = "same"
        self[func] = found
        return found


heeds = _Heeds()


def learned(x: Tensor) -> bool:
    """Whether a tensor is a parameter, or a view of one."""
    return isinstance(x, Parameter) or isinstance(x._base, Parameter)


def terms(name: str, args: Any, first: Tensor, second: Tensor, result: Tensor) -> tuple[str, str, str] | None:
    """The axes of two factors and of their product as letters, None for a product that has no such form."""
    if name == "einsum":
        if not isinstance(args[0], str) or args[0].count("->") != 1 or args[0].count(",") != 1 or "..." in args[0]:
            return None
        left, _, out = args[0].replace(" ", "").partition("->")
        one, _, other = left.partition(",")
        found = one, other, out
    elif min(first.ndim, second.ndim) > 1 and name in _PRODUCTS:
        letters = _LETTERS[: result.ndim - 2]
        found = (
            _leading(first, result, letters, "x") + "tc",
            _leading(second, result, letters, "y") + "cs",
            letters + "ts",
        )
    else:
        return None
    sizes = zip(found, (first, second, result), strict=True)
    return found if all(len(set(some)) == len(some) == x.ndim for some, x in sizes) else None


def _leading(x: Tensor, result: Tensor, letters: str, other: str) -> str:
    """Letters of the leading axes of a factor; where it has one cell and the product several, one of its own."""
    n = x.ndim - 2
    own, whole = letters[len(letters) - n :], result.shape[result.ndim - 2 - n :]
    return "".join(
        a if x.shape[i] == whole[i] else chr(ord(a) + 0x100 * "xy".index(other) + 0x100) for i, a in enumerate(own)
    )


def _pointwise(name: str) -> bool:
    op = getattr(torch.ops.aten, name, None)
    return op is not None and any(torch.Tag.pointwise in getattr(op, one).tags for one in op.overloads())


def _plain(x: Any) -> bool:
    return type(x) in (Tensor, Parameter) and not x.is_nested


def _in_order(order: np.ndarray, leading: tuple[int, ...]) -> bool:
    """Whether the last of several leading axes holds the heads."""
    return order.shape[1] == (leading[-1] if len(leading) > 1 else 1) and bool((np.diff(order.ravel()) == 1).all())


def _order(leading: tuple[int, ...], operands: Sequence[Operand]) -> np.ndarray | None:
    """Samples and heads (B, H), by all operands together; one head only if that is certain."""
    n = prod(leading)
    keys = [found for x in operands if (found := _keys(leading, x)) is not None]
    heads, samples = [x for own, _, _ in keys for x in own], [x for _, own, _ in keys for x in own]
    each = list(zip(*samples, strict=True)) if samples else [()] * n
    within = list(zip(*heads, strict=True)) if heads else [()] * n
    # Of those that have cells in common nothing tells what they are.
    if len(set(zip(each, within, strict=True))) < n:
        return None
    groups: dict[Any, list[int]] = {}
    for i, sample in enumerate(each):
        groups.setdefault(sample, []).append(i)
    order = [sorted(rows, key=within.__getitem__) for rows in groups.values()]
    even = len({len(rows) for rows in order}) == 1
    return np.array(order) if even and (len(order[0]) > 1 or all(certain for *_, certain in keys)) else None


def _keys(leading: tuple[int, ...], operand: Operand) -> tuple[list[np.ndarray], list[np.ndarray], bool] | None:
    """Numbers that tell heads, and numbers that tell samples, along axes; whether it is certain that these do."""
    made: list[tuple[int, Made]] = []
    try:
        with SILENT(), torch.no_grad():
            cells = _cells(operand.origin, made, {})
            first, next_ = (_picked(cells, operand, i).expand(leading).reshape(-1).numpy() for i in (0, 1))
            return _told(first, next_, made)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, _UnknownError):
        # What does not go with places of cells is not followed.
        return None


def _picked(cells: Tensor, operand: Operand, feature: int) -> Tensor:
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


def _told(
    first: np.ndarray, second: np.ndarray, made: list[tuple[int, Made]]
) -> tuple[list[np.ndarray], list[np.ndarray], bool]:
    """The same of places of cells, those of the first feature and those of the second."""
    starts = np.array([start for start, _ in made])
    own = np.searchsorted(starts, first, "right") - 1
    kinds = [made[i][1] for i in np.unique(own)]
    if len({(x.shape, x.features) for x in kinds}) > 1:
        raise _UnknownError
    one = kinds[0]
    places = np.unravel_index(first - starts[own], one.shape)
    features: Sequence[int] | None = one.features
    if features is None:
        beside = np.unravel_index(np.clip(second - starts[own], 0, prod(one.shape) - 1), one.shape)
        features = [a for a in range(len(one.shape)) if (places[a] != beside[a]).any()] or [len(one.shape) - 1]
    heads, rest = [places[a] for a in features], [x for a, x in enumerate(places) if a not in features]
    if len(kinds) > 1:
        makers = {x.maker for x in kinds}
        if None in makers or 1 < len(makers) < len(kinds):
            raise _UnknownError
        # Maps of their own make heads, and one map of several things makes samples.
        (heads if len(makers) > 1 else rest).append(own)
    elif one.rows is not None and len(one.shape) > 3:
        inner: list[tuple[int, Made]] = []
        cells = _cells(one.rows, inner, {})
        at = np.ravel_multi_index(places[:-1], one.shape[:-1])
        rows = [cells[..., min(i, cells.shape[-1] - 1)].reshape(-1).numpy()[at] for i in (0, 1)]
        more, samples, _ = _told(rows[0], rows[1], inner)
        return heads + more, samples, False
    return heads, rest, one.maker is not None


def _cells(origin: Origin, made: list[tuple[int, Made]], known: dict[int, Any]) -> Tensor:
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
        raise _UnknownError
    known[id(origin)] = cells
    return cells


def _made(origin: Any) -> Iterator[Made]:
    """The tensors that were computed, of which a tensor holds cells."""
    if isinstance(origin, Made):
        yield origin
    elif isinstance(origin, Moved):
        yield from _made((*origin.args, *origin.kwargs.values()))
    elif isinstance(origin, tuple | list):
        for x in origin:
            yield from _made(x)


def _with_cells(x: Any, made: list[tuple[int, Made]], known: dict[int, Any]) -> Any:
    if isinstance(x, Made | Moved):
        return _cells(x, made, known)
    return type(x)(_with_cells(y, made, known) for y in x) if type(x) in (tuple, list) else x


def _signature(operands: Sequence[Operand]) -> Iterator[Any]:
    """What was done, in words that are the same for layers that do the same."""
    numbers: dict[Any, int] = {}

    def told(x: Any) -> Any:
        if isinstance(x, Made):
            maker = None if x.maker is None else numbers.setdefault(("maker", x.maker), len(numbers))
            return x.shape, x.features, maker, numbers.setdefault(x, len(numbers)), told(x.rows)
        if isinstance(x, Moved):
            return x.shape, x.func, told(x.args), told(sorted(x.kwargs.items())), x.part
        return tuple(map(told, x)) if type(x) in (tuple, list) else x if type(x) in (int, str) else repr(x)

    return ((told(x.origin), x.leading, x.features) for x in operands)
