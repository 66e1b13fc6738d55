"""Where the cells of a tensor come from, while it is split, moved and joined: what tells samples from heads.

Nothing is computed on the way.  What was done is noted, and done once more, when somebody asks, with the places of
cells in the place of numbers: along heads the features of what was split are others, along samples they are not.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from math import prod
from operator import eq
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Linear, Parameter, functional

from overt.torch.record.cells import (
    FAILED,
    Made,
    Moved,
    Operand,
    Origin,
    Product,
    Rows,
    UnknownError,
    cells_of,
    differ,
    in_order,
    keys_of,
    made_of,
    order_of,
    picked,
    rows_of,
    signature_of,
)
from overt.torch.record.equations import equation, terms
from overt.torch.record.functions import SHAPED, axis_of, makes, name_of, pointwise
from overt.torch.record.kernel import SILENT

# What only moves cells, or chooses some along an axis, and what makes of each cell one at the same place; others are
# known to torch as pointwise.
_MOVES = {
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "transpose", "permute", "swapaxes", "swapdims",
    "movedim", "moveaxis", "expand", "expand_as", "broadcast_to", "view_as", "reshape_as", "__getitem__", "T", "mT",
    "H", "mH",
    "repeat", "repeat_interleave", "tile", "narrow", "select", "diagonal", "t", "adjoint", "split", "split_with_sizes",
    "chunk", "tensor_split", "hsplit", "vsplit", "unbind", "cat", "concat", "concatenate", "stack", "hstack", "vstack",
    "unfold", "roll", "flip", "topk", "sort", "index_select", "gather", "take_along_dim",
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
_MAPS = {"linear", "conv1d", "conv2d", "conv3d", "einsum", "tensordot", "matmul", "__matmul__", "bmm"}
_MOST = 4096


class _Ref(weakref.ref[Tensor]):
    """A reference to a tensor that knows under which number it is kept."""

    __slots__ = ("key",)
    key: int


class Origins:
    """Notes of what became of tensors; holds on to none."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Ref, Origin]] = {}
        self._orders: dict[Any, tuple[np.ndarray | None, Rows | None]] = {}

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
                origin = known[1] if known is not None and known[0]() is args[0] else None
                rows, axes = origin, None
                if type(origin) is Made:
                    rows, axes = _before(origin, (*range(len(shape) - 1), None)) if origin.rows else (None, None)
                self._put(result, Made(shape, (len(shape) - 1,), id(args[1]), rows, axes))
            elif isinstance(result, Tensor) and (made := self._map(func, args, kwargs, result)) is not None:
                self._put(result, made)
        elif kind == "kept":
            self._kept(func, args, kwargs, result)
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
            except UnknownError:
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

    def moved(self, func: Callable[..., Tensor], x: Tensor, *args: Any) -> Tensor:
        """What a function that only moves cells makes of a tensor."""
        result, origin = func(x, *args), self.of(x)
        if origin is not None:
            self._put(result, Moved(tuple(result.shape), func, (origin, *args), {}, None))
        return result

    def order(self, leading: tuple[int, ...], operands: Sequence[Operand]) -> tuple[np.ndarray | None, Rows]:
        """Which of the leading axes, flattened, are which sample and which head, (B, H).

        None where nothing tells, and where samples stand before heads as they should.
        And which places among the queries are which query and which head, (T, H), nothing where they hold no heads.
        """
        # A single query has no heads beside it.
        certain, rows, wants = None, None, any(x.rows is not None and x.origin.shape[x.rows] > 1 for x in operands)
        several = prod(leading) > 1
        # One that tells heads will do, and samples that share something are told by all together.
        for some in (*([x] for x in operands), operands) if several or wants else ():
            key = leading, tuple(signature_of(some))
            if key not in self._orders:
                if len(self._orders) > _MOST:
                    self._orders.clear()
                self._orders[key] = order_of(leading, some) if several else None, rows_of(some)
            found, apart = self._orders[key]
            rows = apart if rows is None else rows
            # The first that tells heads is right, whatever others make of them.
            if found is not None and (certain is None or certain.shape[1] == 1 < found.shape[1]):
                certain = found
            told = not several or (certain is not None and certain.shape[1] > 1)
            if told and (rows is not None or not wants):
                break
        return None if certain is None or in_order(certain, leading) else certain, rows or []

    def role(self, operand: Operand) -> str | None:
        """What an axis holds: "heads", "samples", which are all that are no heads, or None where nothing tells."""
        axis = operand.leading[0]
        n = 1 if axis is None else operand.origin.shape[axis]
        found = keys_of((n,), operand) if n > 1 else None
        if found is None:
            return None
        heads, samples, _ = found
        several = [any(map(differ, some)) for some in (heads, samples)]
        return None if several[0] == several[1] else "heads" if several[0] else "samples"

    def source(self, origin: Origin, axis: int) -> tuple[Made, int] | None:
        """The tensor that was computed, and its axis, of which an axis holds the cells."""
        made: list[tuple[int, Made]] = []
        try:
            with SILENT(), torch.no_grad():
                cells = picked(cells_of(origin, made, {}), Operand(origin, (axis,), None), 0).numpy()
        except FAILED:
            return None
        if len(made) > 1:
            return None
        moves = [a for a, x in enumerate(np.unravel_index(cells, made[0][1].shape)) if differ(x)]
        return (made[0][1], moves[0]) if len(moves) == 1 else None

    def features(self, origin: Origin | None, axis: int | None) -> bool:
        """Whether an axis holds features alone, and neither positions nor samples."""
        return origin is not None and axis is not None and self.role(Operand(origin, (axis,), axis)) == "heads"

    def mapped(self, origin: Origin, axis: int) -> bool | None:
        """Whether an axis holds features that a map by parameters made, or places of it; None where none did."""
        found = (origin, axis) if isinstance(origin, Made) else self.source(origin, axis)
        return None if found is None or found[0].features is None else found[1] in found[0].features

    def same(self, one: tuple[Origin, int] | None, x: Tensor, axis: int | None) -> bool | None:
        """Whether an axis of a tensor is one that is known from before; None where nobody knows."""
        origin = self.of(x)
        if one is None or origin is None or axis is None:
            return None
        before, now = self.source(*one), self.source(origin, axis)
        return None if before is None or now is None else before == now

    def halves(self, origin: Origin | None, axis: int | None) -> tuple[tuple[Made, Product], list[int]] | None:
        """The product of which an axis holds cells, and those of its factors of which the axis holds the features."""
        # Most products are of maps.
        if origin is None or axis is None or all(x.product is None for x in made_of(origin)):
            return None
        found = self.source(origin, axis)
        product = None if found is None else found[0].product
        if found is None or product is None:
            return None
        factors = [product.operand(i, [found[1]]) for i in (0, 1)]
        places = [i for i, x in enumerate(factors) if x is not None and self.features(x.origin, x.leading[0])]
        return ((found[0], product), places) if places else None

    def turns(self, args: Any) -> bool:
        """Whether some arguments have been moved, or are computed of what had been."""
        for x in args:
            if (found := self._known.get(id(x))) is not None:
                origin = found[1]
                if not isinstance(origin, Made) or origin.rows is not None:
                    return True
        return False

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
            if not (x.is_floating_point() or x.is_complex()):
                # Places may be changed later.
                return x.clone()
            if (origin := self.of(x)) is None:
                raise UnknownError
            return origin
        return type(x)(map(self._filled, x)) if type(x) in (tuple, list) else x

    def _same(self, args: Any, result: Any) -> None:
        """The cells of the first operand of this shape that a map or a product gave are those of what is made of it.

        Without any, those of the first that was moved.
        """
        known, moved = self._known, False
        for x in args:
            found = known.get(id(x))
            if found is None or not isinstance(x, Tensor) or found[0]() is not x:
                continue
            if isinstance(result, Tensor) and x.shape == result.shape:
                if found[1].told:
                    self._put(result, found[1])
                    return
                if not moved:
                    self._put(result, found[1])
                    moved = type(found[1]) is Moved

    def _kept(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """What a function that nobody knows gives first has the axes of the first tensor whose cells are known.

        What is as large as scores is that of scores.
        """
        result = result[0] if isinstance(result, tuple) else result
        if not _plain(result) or not (result.is_floating_point() or result.is_complex()):
            return
        origin = next((x for x in map(self._entry, filter(_plain, (*args, *kwargs.values()))) if x is not None), None)
        if origin is None or self._entry(result) is not None:
            return
        shape, axis = tuple(result.shape), axis_of(func, args, kwargs)
        n = len(origin.shape)
        if shape == origin.shape and next(made_of(origin)).product is not None:
            self._put(result, origin)
        elif n == len(shape) or (axis is None and all(map(eq, shape, origin.shape))):
            # Along an axis that is named, cells are of several places.
            axes = tuple(None if a >= len(shape) else ~a if axis in (a, a - n) else a for a in range(n))
            self._put(result, Made(shape, None, None, *_before(origin, axes)))

    def _map(self, func: Callable[..., Any], args: Any, kwargs: Any, result: Tensor) -> Made | None:
        name, shape = func.__name__, tuple(result.shape)
        tensors = [x for x in args if isinstance(x, Tensor)][:2]
        own = [learned(x) for x in tensors]
        if len(tensors) == 2 and (name == "linear" or name.startswith("conv")) and self._entry(result) is None:
            # A weight that was computed, as a normed one is, has no number by which it is known again.
            made = len(shape) - 1 if name == "linear" else len(shape) + 1 - tensors[1].ndim
            axes = tuple(None if a == made else a for a in range(len(shape)))
            maker = id(tensors[1]) if own[1] else None
            return Made(shape, (made,), maker, *_before(self._entry(tensors[0]), axes))
        if len(tensors) < 2 or all(own) or not any(own):
            return None
        known = self._entry(tensors[1 - own.index(True)])
        maker = id(tensors[own.index(True)])
        letters = terms(name, equation(name, args, kwargs, *tensors), tensors[0], tensors[1], result)
        if letters is None:
            # A vector leaves no features.
            return Made(shape, (), maker) if own[1] and tensors[1].ndim == 1 and name != "einsum" else None
        activation, given, learnt, out = (
            tensors[own.index(False)],
            letters[own.index(False)],
            letters[own.index(True)],
            letters[2],
        )
        # Along an axis that both have, heads have maps of their own, and so have positions, which are no features.
        both = [a for a in given if a in learnt and a in out]
        origin = self.of(activation) if both else None
        heads = [] if origin is None else [a for a in both if self.features(origin, given.index(a))]
        features = tuple(i for i, a in enumerate(out) if a in heads or a not in given)
        return Made(shape, features, maker, *_before(known, tuple(out.index(a) if a in out else None for a in given)))


class _Heeds(dict[Any, str]):
    """What a function is here: "move", "same", "map", "other", or nothing."""

    def __missing__(self, func: Any) -> str:
        if len(self) > _MOST:
            self.clear()
        name = name_of(func)
        if name == "__get__":
            # Of properties, those that turn a tensor.
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        found = "move" if name in _MOVES else "map" if name in _MAPS else "other" if name in _OTHERS else ""
        bare = name.strip("_")
        # Of operators there are some that have their factors in another order.
        names = bare, bare[1:] if name.startswith("__") else bare
        if not found and (names[0] in _SAME or names[1] in _SAME or any(map(_pointwise, names))):
            found = "same"
        if not found and name not in SHAPED and (name[-1:] != "_" or name[:1] == "_") and makes(func):
            found = "same" if pointwise(func)[0] else "kept"
        self[func] = found
        return found


heeds = _Heeds()


def learned(x: Tensor) -> bool:
    """Whether a tensor is a parameter, or a view of one."""
    return isinstance(x, Parameter) or isinstance(x._base, Parameter)


def _pointwise(name: str) -> bool:
    op = getattr(torch.ops.aten, name, None)
    return op is not None and any(torch.Tag.pointwise in getattr(op, one).tags for one in op.overloads())


def _before(origin: Origin | None, axes: tuple[int | None, ...]) -> tuple[Origin | None, tuple[int | None, ...]]:
    """Rows of what is computed of a tensor, and their axes; axes: for each one of the tensor, which it is then."""
    if not isinstance(origin, Made):
        return origin, axes
    if origin.rows is None:
        return None, axes
    found: list[int | None] = []
    for a in origin.axes or (*range(len(origin.rows.shape) - 1), None):
        b = None if a is None else axes[max(a, ~a)]
        found.append(min(b, ~b) if a is not None and b is not None and a < 0 else b)
    return origin.rows, tuple(found)


def _plain(x: Any) -> bool:
    return type(x) in (Tensor, Parameter) and not x.is_nested


def maps(place: Any, args: Any, kwargs: Any) -> bool:
    """Whether a linear map is one by parameters, and no product of activations."""
    weight = args[1] if len(args) > 1 else kwargs.get("weight")
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    return isinstance(place, Linear) or bias is not None or not isinstance(weight, Tensor) or learned(weight)
