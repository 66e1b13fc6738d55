"""Loops over numbers, as operations on arrays: what was done in the same way to many numbers is done to all at once.

Arrays of numbers are followed back from where they are made.  Numbers that one line made in one way, a family, are one
operation on what they were made of, which are families again, without the axes along which they are the same.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from overt.recorder.numbers import Kind, Numbers, is_number
from overt.recorder.operations import Line, Operation

_MAKES = {"array", "asarray", "stack"}
# Steps from a result to what was given, operations written, cells of all families, and kinds of numbers in one family.
_DEEP, _MOST, _CELLS, _KINDS = 100, 3000, 5_000_000, 64
# Steps that some numbers take and others do not.
_BENT = 4
_Value = tuple[np.ndarray, int | None, str]


class _UnlikeError(Exception):
    """Numbers that are made in too many ways to be followed."""


def lifted(operations: Sequence[Operation]) -> tuple[list[Operation], list[int]] | None:
    """Operations with arrays in place of numbers, and the number of each before; None where there is nothing to lift.

    Of one that stands for several, the number is that of the last of them.
    """
    roots = {n for n, op in enumerate(operations) if _is_root(operations, op)}
    if not roots:
        return None
    numbers = Numbers(operations)
    roots = {n for n in roots if any(numbers.computed(s) for s in operations[n].sources)}
    kept, made = numbers.kept(roots), _Lifting(numbers)
    try:
        for number, operation in enumerate(operations):
            if number in roots:
                made.root(number, operation)
            elif kept[number]:
                made.keep(number, operation)
    except (_UnlikeError, RecursionError):
        return None
    return (made.operations, made.before) if roots else None


def _is_root(operations: Sequence[Operation], op: Operation) -> bool:
    single = op.name in _MAKES and op.host.ndim and len(op.sources) == op.host.size and op.host.dtype.kind == "f"
    return bool(single and all(s is not None and is_number(operations[s].host) for s in op.sources))


class _Lifting:
    """The operations on arrays so far."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers, self.operations, self.before = numbers, list[Operation](), list[int]()
        self.now: dict[int, int] = {}
        # families that are lifted, by their numbers and in order, and in which of them each number is
        self.known: dict[tuple[tuple[int, ...], bytes], _Value] = {}
        self.families: list[tuple[np.ndarray, _Value]] = []
        # arrays in other forms, and what they were before
        self.shapes: dict[Any, _Value] = {}
        self.unshaped: dict[int | None, _Value] = {}
        self.owner = np.full(len(numbers.values), -1)
        self.depth = self.cells = 0

    def keep(self, number: int, operation: Operation) -> None:
        """One as it is."""
        self.operations.append(replace(operation, sources=tuple(
            None if s is None else self.now[s] for s in operation.sources)))  # fmt: skip
        self.before.append(number)
        self.now[number] = len(self.operations) - 1

    def root(self, number: int, operation: Operation) -> None:
        """An array that was made of numbers."""
        of = self.numbers.of
        family = np.array([of[s] for s in operation.sources if s is not None]).reshape(operation.host.shape)
        value = self._of(_reduced(family), operation.line)
        name = operation.name if value[0].shape == operation.host.shape else "broadcast_to"
        made = self._note(name, operation.host, operation.line, value, last=number)
        self.now[number] = made[1] or 0

    def _of(self, family: np.ndarray, line: Line | None) -> _Value:
        """The value of a family, in its own form; line: of what takes it."""
        slim = family.squeeze()
        key = slim.shape, slim.tobytes()
        if key not in self.known:
            self.depth, self.cells = self.depth + 1, self.cells + slim.size
            if self.depth > _DEEP or self.cells > _CELLS:
                raise _UnlikeError
            made = self.known[key] = self._made(slim, line)
            if made[0].shape == slim.shape:
                new = slim[slim >= 0]
                size = np.array([f.size for f, _ in self.families] + [0])
                self.owner[new[size[self.owner[new]] <= slim.size]] = len(self.families)
                self.families.append((slim, made))
            self.depth -= 1
        return self._shaped(self.known[key], family.shape)

    def _shaped(self, value: _Value, shape: tuple[int, ...]) -> _Value:
        if value[0].shape == shape:
            return value
        # What was put into another form is taken from before that.
        value = self.unshaped.get(value[1], value)
        if value[0].shape == shape:
            return value
        key = shape, value[1], value[2], value[0].tobytes() if value[1] is None else b""
        if key not in self.shapes:
            line = None if value[1] is None else self.operations[value[1]].line
            made = self.shapes[key] = self._note("reshape", value[0].reshape(shape), line, value)
            self.unshaped[made[1]] = value
        return self.shapes[key]

    def _made(self, slim: np.ndarray, line: Line | None) -> _Value:
        all_ = slim[slim >= 0]
        kinds = list(dict.fromkeys(self.numbers.kinds[i] for i in all_.tolist()))
        if not kinds:
            return np.zeros(slim.shape), None, ""
        picked = self._picked(slim, line)
        sums = [kind for kind in kinds if kind[0] in ("total", "begun")]
        if picked is not None:
            return picked
        if len(kinds) == 1 and kinds[0][0] == "taken":
            return self._taken(slim, kinds[0][1], line)
        if (gathered := self._gathered(slim, line)) is not None:
            return gathered
        if len(kinds) == 1 and kinds[0] == ("own",):
            return self._stack(slim, [self._own(i) for i in all_.tolist()], line)
        if len(sums) == 1 and all(kind in (sums[0], sums[0][2]) for kind in kinds):
            return self._sum(slim, sums[0], line)
        return self._each(slim, line) if len(kinds) == 1 else self._mixed(slim, kinds, line)

    def _own(self, one: int) -> _Value:
        number = self.numbers.first[one]
        return self.numbers.operations[number].host, self.now[number], ""

    def _picked(self, slim: np.ndarray, line: Line | None) -> _Value | None:
        """The largest numbers of rows, or others, of a larger family that is lifted already."""
        owners = np.unique(self.owner[slim])
        if (slim < 0).any() or len(owners) != 1 or owners[0] < 0:
            return None
        family, value = self.families[owners[0]]
        if family.size == slim.size and self.numbers.kinds[slim.flat[0]][0] != "taken":
            return self._turned(slim, family, value, line)
        if family.size <= slim.size:
            return None
        host, x = self.numbers.values[slim], self.numbers.values[family]
        for many in range(1, family.ndim + 1):
            for axes in combinations(range(family.ndim), many):
                top = np.where(family < 0, -np.inf, x).max(axes, keepdims=True)
                if top.squeeze().shape == slim.shape and (top.reshape(slim.shape) == host).all():
                    return self._note("max", top, line, self._filled(value, family, -np.inf, line))
        if self.numbers.kinds[slim.flat[0]][0] == "taken":
            return None
        return self._note("index", host, line, value, last=self._last(slim))

    def _turned(self, slim: np.ndarray, family: np.ndarray, value: _Value, line: Line | None) -> _Value | None:
        """Of a family that is lifted already, but for the order of its axes, that value."""
        for axes in permutations(range(slim.ndim)):
            if np.array_equal(family.transpose(axes), slim):
                name = "T" if slim.ndim == 2 else "transpose"
                return self._note(name, value[0].transpose(axes), line, value, last=self._last(slim))
        return None

    def _gathered(self, slim: np.ndarray, line: Line | None) -> _Value | None:
        """Of a family in which numbers are repeated, as ends of edges are, all that there are, and some of these."""
        there = slim >= 0
        count = len(np.unique(slim[there]))
        if count == there.sum():
            return None
        for many in range(slim.ndim - 1, -1, -1):
            for own in combinations(range(slim.ndim), many):
                others = [axis for axis in range(slim.ndim) if axis not in own]
                form = [slim.shape[axis] for axis in own]
                rows = slim.transpose(*others, *own).reshape(-1, int(np.prod(form)))
                rows = np.unique(rows[(rows >= 0).any(1)], axis=0)
                if (rows >= 0).all() and rows.size == count:
                    value = self._of(rows.reshape(-1, *form), line)
                    host = np.where(there, self.numbers.values[slim], 0)
                    return self._note("index", host, line, value, last=self._last(slim))
        return None

    def _taken(self, slim: np.ndarray, key: Any, line: Line | None) -> _Value:
        """Numbers of an array: the whole of it, perhaps in another form, or some."""
        base, source, origin = self.numbers.bases[key]
        value = base, None if source is None else self.now[source], origin
        places = np.array([*self.numbers.places, -1])[slim]
        count = np.arange(base.size)
        for axes in permutations(range(slim.ndim)) if slim.size == base.size and slim.ndim < 6 else ():
            turned = places.transpose(axes)
            if (turned.ravel() == count).all():
                whole = self._shaped(value, turned.shape)
                if axes == tuple(range(slim.ndim)):
                    return whole
                back = np.argsort(axes)
                name = "T" if slim.ndim == 2 else "transpose"
                return self._note(name, whole[0].transpose(back), line, whole, last=self._last(slim))
        host = np.where(slim < 0, 0, base.ravel()[np.maximum(places, 0)])
        return self._note("index", host, line, value, last=self._last(slim))

    def _each(self, slim: np.ndarray, line: Line | None) -> _Value:
        """One operation, number by number."""
        some = next(i for i in slim.ravel().tolist() if i >= 0)
        families = self._operands(slim, len(self.numbers.sources[some]))
        if (form := _split(slim, families)) is not None:
            return self._shaped(self._of(slim.reshape(form), line), slim.shape)
        name, own = self._name(some)
        values = self._all([_reduced(x) for x in families], own)
        if name == "exp":
            values = [self._filled(values[0], slim, -np.inf, own)]
        return self._note(name, self._completed(slim, name, values), own, *values, last=self._last(slim))

    def _name(self, one: int) -> tuple[str, Line | None]:
        operation = self.numbers.operations[self.numbers.first[one]]
        return operation.name, operation.line

    def _all(self, families: Sequence[np.ndarray], line: Line | None) -> list[_Value]:
        """Of several families the values, the largest first: others may be picked from it."""
        order = sorted(range(len(families)), key=lambda i: -families[i].size)
        for i in order:
            self._of(families[i], line)
        # What one of them lacks may have been told meanwhile.
        return [self._of(x, line) for x in families]

    def _operands(self, family: np.ndarray, many: int) -> list[np.ndarray]:
        sources = [*self.numbers.sources, (-1,) * many]
        whole = np.array([sources[i] for i in family.ravel().tolist()]).reshape(*family.shape, many)
        return [whole[..., i] for i in range(many)]

    def _completed(self, slim: np.ndarray, name: str, values: Sequence[_Value]) -> np.ndarray:
        """What was computed, and where nothing was what would have been, as far as that can be told."""
        host, there = self.numbers.values[slim], slim >= 0
        if there.all():
            return host
        xs, ufunc = [np.broadcast_to(x, slim.shape) for x, *_ in values], getattr(np, name, None)
        with np.errstate(all="ignore"):
            if isinstance(ufunc, np.ufunc) and ufunc.nin == len(xs):
                made = ufunc(*xs)
                if np.allclose(made[there], host[there], rtol=1e-9, equal_nan=True):
                    return np.where(there, host, made)
            x, first = xs[0], int(np.abs(xs[0][there]).argmax())
            one, other = x[there][first], host[there][first]
            made = x * (other / one) if name in ("multiply", "divide") else x + (other - one)
        right = np.allclose(made[there], host[there], rtol=1e-9, equal_nan=True) & ~np.isinf(x)
        return np.where(there, host, np.where(right, made, x))

    def _filled(self, value: _Value, family: np.ndarray, fill: float, line: Line | None) -> _Value:
        """A value with one number wherever its family lacks any."""
        there = np.broadcast_to(family >= 0, np.broadcast_shapes(family.shape, value[0].shape))
        x = np.broadcast_to(value[0], there.shape)
        if (x[~there] == fill).all():
            return value
        made = self._note("where", np.where(there, x, fill), line, value, (there, None, ""), last=self._last(family))
        slim = family.squeeze()
        if fill and made[0].size == slim.size:
            key = slim.shape, slim.tobytes()
            self.known[key] = self._shaped(made, slim.shape)
        return made

    def _sum(self, slim: np.ndarray, kind: Kind, line: Line | None) -> _Value:
        """Sums of many terms: a contraction where these are products; what sums begin with is added by itself."""
        numbers, own = self.numbers, self._asked(slim, kind[1])
        rows = [[] if i < 0 else held[:many] for i in slim.ravel().tolist()
                for held, many in (numbers.terms.get(i, ([i], 1)),)]  # fmt: skip
        width = max(map(len, rows))
        terms = np.array([[*row, *[-1] * (width - len(row))] for row in rows]).reshape(*slim.shape, width)
        if width == 1 and kind[2][::2] != ("multiply", 2):
            value = self._of(_reduced(terms[..., 0]), own)
            return self._note("add", self._completed(slim, "add", [value]), own, value, last=self._last(slim))
        alike = {numbers.kinds[i] for i in terms[terms >= 0].tolist()}
        divisor = self._divisor(terms, alike)
        if divisor is not None:
            # What all terms are divided by divides their sum.
            terms, alike = self._operands(terms, 2)[0], {("multiply", None, 2)}
        if len(alike) == 1 and (one := next(iter(alike)))[0] == "multiply" and one[2] == 2:
            families = self._operands(terms, 2)
            if (form := _split(slim, families)) is not None:
                return self._shaped(self._of(slim.reshape(form), line), slim.shape)
            name, values, detail, full = self._contraction(slim, terms, families, own)
        else:
            value = self._filled(self._of(terms, own), terms, 0, own)
            name, values, detail, full = "sum", [value], "", value[0].sum(-1)
        there, host, last = slim >= 0, numbers.values[slim], self._last(slim)
        if kind[0] == "begun":
            made = self._note(name, full, own, *values, detail=detail, last=last)
            begins = np.array([*numbers.leads, -1])[slim]
            values, name, detail = [self._of(_reduced(begins), own), made], "add", ""
            full = values[0][0] + made[0]
        elif divisor is not None:
            made = self._note(name, full, own, *values, detail=detail, last=last)
            values, name, detail = [made, self._of(divisor, own)], "divide", ""
            full = made[0] / values[1][0]
        made = self._note(name, np.where(there, host, full), own, *values, detail=detail, last=last)
        return self._filled(made, slim, -np.inf, line)

    def _asked(self, slim: np.ndarray, line: Line | None) -> Line | None:
        """The line of some sums: who called its function, where others call it too."""
        if line is None or len(self.numbers.callers.get(line, ())) < 2:
            return line
        made = (self.numbers.operations[self.numbers.first[i]].line for i in slim[slim >= 0].tolist())
        callers = {one.caller for one in made if one is not None}
        return callers.pop() or line if len(callers) == 1 else line

    def _divisor(self, terms: np.ndarray, alike: set[Kind]) -> np.ndarray | None:
        """What all products that are summed are divided by, in the form of the sums."""
        if len(alike) != 1 or next(iter(alike))[::2] != ("divide", 2):
            return None
        above, below = self._operands(terms, 2)
        made = {self.numbers.kinds[i][::2] for i in above[above >= 0].tolist()}
        return _reduced(below.max(-1)) if made == {("multiply", 2)} and _constant(below, terms.ndim - 1) else None

    def _contraction(
        self, slim: np.ndarray, terms: np.ndarray, families: Sequence[np.ndarray], line: Line | None
    ) -> tuple[str, list[_Value], str, np.ndarray]:
        letters = string.ascii_lowercase[: terms.ndim]
        one, two = (_reduced(x, last=False) for x in families)
        # Where nothing is added may be known by one of the two alone.
        if (np.broadcast_to((one < 0) | (two < 0), terms.shape) != (terms < 0))[slim >= 0].any():
            one = families[0]
        if any(m == n == 1 < whole for m, n, whole in zip(one.shape, two.shape, terms.shape[:-1], strict=False)):
            one = families[0]
        kept = [[i for i, n in enumerate(x.shape) if n > 1 or i == x.ndim - 1] for x in (one, two)]
        slims = [x.reshape([x.shape[i] for i in own]) for x, own in zip((one, two), kept, strict=True)]
        values = [self._filled(value, x, 0, line) for value, x in zip(self._all(slims, line), slims, strict=True)]
        labels = ["".join(letters[i] for i in own) for own in kept]
        detail = ",".join(labels) + "->" + letters[:-1]
        return "einsum", values, detail, np.einsum(detail, *(x for x, *_ in values))

    def _mixed(self, slim: np.ndarray, kinds: Sequence[Kind], line: Line | None) -> _Value:
        """Numbers that were made in several ways: bent where they are negative, or put together."""
        numbers, last = self.numbers, self._last(slim)
        names = {kind: i for i, kind in enumerate(kinds)}
        of = np.array([*(names.get(kind, -1) for kind in numbers.kinds), -1])[slim]
        if (bent := self._bent(slim, kinds)) is not None:
            return bent
        if len(kinds) > _KINDS:
            raise _UnlikeError
        for axis in range(slim.ndim):
            each = [set(x[x >= 0].tolist()) for x in np.moveaxis(of, axis, 0)]
            if any(len(x) > 1 for x in each):
                continue
            starts = [i for i in range(1, len(each)) if each[i] and each[i] != each[i - 1]]
            values = self._all(np.split(slim, starts, axis), line)
            return self._note("concatenate", np.concatenate([x for x, *_ in values], axis), line, *values, last=last)
        values = self._all([slim[of == i] for i in range(len(kinds))], line)
        return self._stack(slim, values, line)

    def _bent(self, slim: np.ndarray, kinds: Sequence[Kind]) -> _Value | None:
        """Numbers that were made of others of one kind, of which some, such as the positive ones, in another way."""
        numbers, inner = self.numbers, slim
        for _ in range(_BENT):
            # Those that were made last are taken back to what they were made of.
            left = {numbers.kinds[i]: i for i in inner[inner >= 0].tolist()}
            outer = [kind for kind, i in left.items() if len(numbers.sources[i]) == 1 and kind[0] != "total"]
            sources = {kind: numbers.kind(numbers.sources[left[kind]][0]) for kind in outer}
            if len(left) == 1:
                break
            above = [kind for kind in outer if sources[kind] in left] or outer
            undone = np.array([*(s[0] if k in above else i for i, (s, k) in enumerate(
                zip(numbers.sources, numbers.kinds, strict=True))), -1])  # fmt: skip
            inner = undone[inner]
            if (inner < 0).any() != (slim < 0).any():
                return None
        some = next((kind for kind in kinds if kind[0] in ("exp", "multiply", "divide")), kinds[0])
        if len(left) > 1 or inner is slim or len(some) < 2:
            return None
        value = self._of(_reduced(inner), some[1])
        name = "elu" if some[0] == "exp" else "leaky_relu"
        x, host = np.broadcast_to(value[0], slim.shape), numbers.values[slim]
        known = np.argsort(x[slim >= 0])
        # What is not known is as where it is nearest.
        near = np.clip(np.searchsorted(x[slim >= 0][known], x), 0, len(known) - 1)
        host = np.where(slim >= 0, host, x * (host[slim >= 0] / x[slim >= 0])[known][near])
        return self._note(name, host, some[1], value, last=self._last(slim))

    def _stack(self, slim: np.ndarray, values: Sequence[_Value], line: Line | None) -> _Value:
        host = np.where(slim < 0, 0, self.numbers.values[slim])
        return self._note("stack", host, line, *values, last=self._last(slim))

    def _last(self, family: np.ndarray) -> int:
        return int(np.array([*self.numbers.last, 0])[family].max())

    def _note(
        self, name: str, host: np.ndarray, line: Line | None, *values: _Value, detail: str = "", last: int | None = None
    ) -> _Value:
        if len(self.operations) > _MOST + len(self.now):
            raise _UnlikeError
        operands, sources, origins = zip(*values, strict=True)
        host = np.asarray(host)
        if last is None:
            last = max((self.before[s] for s in sources if s is not None), default=0)
        self.operations.append(Operation(name, sources, operands, host, host, line, detail, origins))
        self.before.append(last)
        return host, len(self.operations) - 1, ""


def _constant(family: np.ndarray, axis: int) -> bool:
    """Whether a family is the same all along an axis, as far as there are numbers."""
    return bool(((family == family.max(axis, keepdims=True)) | (family < 0)).all())


def _reduced(family: np.ndarray, *, last: bool = True) -> np.ndarray:
    """A family without the axes, perhaps but for the last, along which it is the same."""
    for axis in range(family.ndim - (not last)):
        if _constant(family, axis):
            family = family.max(axis, keepdims=True)
    return family


def _split(slim: np.ndarray, families: Sequence[np.ndarray]) -> tuple[int, ...] | None:
    """The form in which an axis is two, of which one of the families lacks one; None where no axis is."""
    for axis, n in enumerate(slim.shape):
        sizes = [b for b in range(2, n) if n % b == 0]
        for x in families if sizes else ():
            if _constant(x, axis):
                continue
            # Blocks of what is the same, the longest first, or repeats, the shortest first.
            for lost, tried in ((axis + 1, sizes[::-1]), (axis, sizes)):
                for b in tried:
                    form = (*x.shape[:axis], n // b, b, *x.shape[axis + 1 :])
                    if _constant(x.reshape(form), lost):
                        return form[: slim.ndim + 1]
    return None
