"""What tensors would be had nothing been dropped: each operation that follows dropout is done once more without it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from overt.torch.record.functions import LEAVES
from overt.torch.record.kernel import SILENT

DROPOUT = {"dropout", "dropout_", "feature_dropout", "alpha_dropout", "native_dropout"}
# By which numbers are read.
_READS = LEAVES | {"item", "__float__", "__int__"}


class Undropped:
    """Tensors that came after dropout, and for each what it would be without."""

    def __init__(self) -> None:
        # Or None, where it cannot be told.
        self._known: dict[int, tuple[weakref.ref[Tensor], Tensor | None]] = {}
        # Whether a number was read that would be another, and may be among those that come.
        self._read = False

    def begin(self, result: Tensor, source: Tensor) -> None:
        """What dropout gave, and of what: a copy, as what is changed in place later must be changed in it too."""
        self._put(result, source.detach().clone())
        self._read = False

    def of(self, x: Any) -> Tensor | None:
        """What a tensor would be; None where it is what it is, or where nobody knows."""
        return self._known[id(x)][1] if self._comes_after(x) else None

    def see(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Do the same with what there would be."""
        given = [x for x in _flat((*args, *kwargs.values())) if self._comes_after(x)] if self._known else []
        if given and name in _READS:
            self._read = True
            return
        if not given and not (self._read and any(map(_computed, args))):
            return
        target = args[0] if args else None
        changes = result is target or name == "__setitem__"
        results = _flat([target if changes else result])
        found = None if any(self.of(x) is None for x in given) else self._again(name, func, args, kwargs, changes)
        several = _flat([found]) if found is not None else [None] * len(results)
        for x, y in zip(results, several, strict=True):
            if isinstance(x, Tensor):
                self._put(x, y)

    def _again(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, changes: bool) -> Any:
        """What the function gives, of what there would be; None where that cannot be told."""
        target, known = args[0], self.of(args[0])
        if name in DROPOUT:
            # In place, all else that views it would be dropped.
            return None if changes else known
        if changes and known is None and name == "copy_":
            known = torch.empty_like(target)
        if self._read and any(map(_computed, _flat((*args, *kwargs.values())))):
            return None
        # Nothing of the model's own is changed twice, and no random number drawn.
        if (changes and known is None) or "out" in kwargs or "inplace" in kwargs or _draws(func):
            return None
        own = [self._without(x) for x in args]
        if changes:
            own[0] = known
        try:
            with SILENT(), torch.no_grad():
                found = func(*own, **{key: self._without(x) for key, x in kwargs.items()})
        except (RuntimeError, TypeError, ValueError):
            return None
        return known if changes else found

    def _comes_after(self, x: Any) -> bool:
        found = self._known.get(id(x)) if isinstance(x, Tensor) else None
        return found is not None and found[0]() is x

    def _without(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            found = self.of(x)
            return x if found is None else found
        return type(x)(map(self._without, x)) if type(x) in (tuple, list) else x

    def _put(self, x: Tensor, found: Tensor | None) -> None:
        key, known = id(x), self._known

        def forget(gone: Any) -> None:
            if key in known and known[key][0] is gone:
                del known[key]

        known[key] = weakref.ref(x, forget), found


def _flat(args: Any) -> list[Any]:
    return [y for x in args for y in (x if isinstance(x, tuple | list) else [x])]


def _computed(x: Any) -> bool:
    """Whether an argument is a number that was computed: who writes one writes few digits."""
    return type(x) in (int, float) and float(f"{x:.3g}") != x


def _draws(func: Callable[..., Any]) -> bool:
    """Whether a function draws random numbers, or is none of torch's own."""
    if isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return True
    op = getattr(torch.ops.aten, func.__name__.strip("_"), None)
    return op is not None and any(torch.Tag.nondeterministic_seeded in getattr(op, one).tags for one in op.overloads())
