"""What judging has in common: faults, what was said of each step, and one attention with what it was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from overt.check.report import Entry, Outcome
from overt.check.steps import additive
from overt.check.steps.alignment import Alignment
from overt.check.steps.origins import Origin, followed
from overt.check.steps.pipeline import near, permuted, shown
from overt.recorder.core import Core
from overt.recorder.flow import masklike
from overt.recorder.operations import Line, Operation
from overt.recorder.products import Product, made_of, product

FACTORS = {"mul", "imul", "rmul", "multiply", "div", "idiv", "true_divide", "divide", "truediv", "itruediv"}
SUMS = {"add", "iadd", "radd", "sub", "isub", "rsub", "subtract"}
UNKNOWN = "unknown"
# Two rows are one where their numbers are this near.
_ROW = 1e-6


@dataclass(frozen=True)
class Fault:
    """A step that failed: the mistake that gives its numbers, or "unknown"; expected and actual are numbers to read."""

    step: str
    mistake: str
    line: int | None
    file: str
    says: str
    expected: str = ""
    actual: str = ""
    # what it is, where the catalogue's word for it does not fit
    kind: str | None = None


@dataclass(eq=False)
class Judged:
    """What one recording came to: how many attentions there are, what failed, what was tried, and facts beside it."""

    cores: int = 0
    faults: list[Fault] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def enter(self, step: str, mistake: str, line: Line | None, says: str, kind: str | None = None) -> None:
        """What is told of a step that is part of no one attention: the mistake, "" where it held."""
        number, file = (None, "") if line is None else (line.number, line.file)
        if mistake:
            self.faults.append(Fault(step, mistake, number, file, says, kind=kind))
        self.ledger.append(Entry(step, "failed" if mistake else "held", says, number, mistake or None))


class State:
    """One attention, and what is known of it so far."""

    q: Origin
    k: Origin
    v: Origin

    def __init__(
        self,
        core: Core,
        data: list[bool],
        outputs: Sequence[np.ndarray],
        causal: bool | None,
        idle: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.core, self.data, self.outputs, self.promised, self.idle = core, data, outputs, causal, idle
        self.operations = core.operations
        self.faults: list[Fault] = []
        self.ledger: list[Entry] = []
        self.facts: dict[str, Any] = {}
        self.total = 1.0
        # the factor of the scores where they were bent, and the line
        self.bent: tuple[float, Line | None] | None = None
        self.scale_lines: list[Line | None] = []
        self.hidden: np.ndarray | None = None
        self.hiding: list[int] = []
        self.before: np.ndarray | None = None
        self.weights: np.ndarray | None = None
        # what exponentials are taken of, with all that was added to rows
        self.exponents: np.ndarray | None = None
        self.softmax_line: Line | None = None
        # what divides by sums
        self.normaliser: int | None = None
        # whether rows of weights were divided by what grows with their sums
        self.shared = False
        # where what is subtracted from the scores is not one number for each row
        self.shifted: Line | None = None
        self.learned = self.fitted = self.exponential = False
        # whether something else that queries or keys say is part of the scores
        self.several = False
        self.rounded: Line | None = None
        self.odd: list[str] = []
        self.blocks: list[Core] = []
        self.shards: list[Core] = []
        self.phase = "raw"
        self.intended: Mapping[str, Any] = {}
        self.reach = core.reach
        self.sum: additive.Sum | None = None
        self.alignment = Alignment(core.operations, [])

    def fail(
        self, step: str, mistake: str, line: Line | None, says: str, expected: Any = None, actual: Any = None,
        kind: str | None = None,
    ) -> None:  # fmt: skip
        told = shown(expected, actual)
        number, file = (None, "") if line is None else (line.number, line.file)
        self.faults.append(Fault(step, mistake, number, file, says, *told, kind))
        self.note(step, "failed", says, line, mistake)

    def note(self, step: str, outcome: Outcome, why: str = "", line: Line | None = None, mistake: str = "") -> None:
        self.ledger.append(Entry(step, outcome, why, None if line is None else line.number, mistake or None))

    def forget(self, *what: str) -> None:
        """Steps, or mistakes, of which nothing is said after all."""
        self.faults = [f for f in self.faults if not {f.step, f.mistake} & set(what)]
        self.ledger = [e for e in self.ledger if not {e.step, e.mistake} & set(what)]

    def failed(self, step: str) -> bool:
        return any(f.step == step for f in self.faults)

    @property
    def operands(self) -> tuple[Origin, Origin, Origin]:
        """Queries, keys and values."""
        return self.q, self.k, self.v

    def _followed(self, form: np.ndarray, source: int | None, operand: np.ndarray) -> Origin:
        return followed(self.operations, self.data, form, source, operand)

    def streams(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """What queries, keys and values are made of."""
        core = self.core
        sides = [*zip(core.scores.sources, core.scores.origins, strict=True)]
        sides.append((core.mix.sources[1], core.mix.origins[1]))
        q, k, v = (self.reach[s] if s is not None else frozenset({o} - {""}) for s, o in sides)
        return q, k, v

    def _dependent(self, operation: Operation) -> bool:
        """Whether more than one operand depends on the arguments' data."""
        known = [
            self.data[s] if s is not None else o.startswith("argument") and not masklike(x)
            for s, o, x in zip(operation.sources, operation.origins, operation.operands, strict=True)
        ]
        return sum(known) > 1

    def _comes_from(self, number: int, what: str) -> bool:
        """Whether what an operation adds to the data, or chooses of it by, comes from a parameter or an argument."""
        operation = self.operations[number]
        open_ = [s for s in operation.sources if s is not None and not self.data[s]]
        origins = {o for s, o in zip(operation.sources, operation.origins, strict=True) if s is None}
        seen = set[int]()
        while open_:
            one = open_.pop()
            if one not in seen:
                seen.add(one)
                origins |= set(self.operations[one].origins)
                open_ += [s for s in self.operations[one].sources if s is not None]
        return any(o.startswith(what) for o in origins)

    def _of_parameters(self, number: int) -> bool:
        """Whether what an operation adds comes from parameters."""
        return self._comes_from(number, "parameter")

    def _projected(self, one: Origin) -> Product | None:
        """The product that made queries, keys or values, behind a bias, where there is one."""
        number = one.source
        while number is not None:
            made = product(self.operations, number)
            sources = [s for s in self.operations[number].sources if s is not None and self.data[s]]
            if made is not None or self.operations[number].name not in SUMS or len(sources) != 1:
                return made
            number = sources[0]
        return None

    @property
    def mask_line(self) -> Line | None:
        """Where what was given hides scores, or else where some are hidden first."""
        if not self.hiding:
            return self.softmax_line
        given = (number for number in self.hiding if self._comes_from(number, "argument"))
        return self.operations[next(given, self.hiding[0])].line

    def _normal(self) -> None:
        """What is seen of weights that were not followed from their scores: they sum to 1, or are divided by sums."""
        core, line = self.core, self.operations[self.core.mix.number].line
        # Beside the keys there may be one more that has no value, and heads may be mixed.
        keys = {core.weights.shape[axis] + more for axis in core.key_axes for more in (0, 1)}
        made = (self.operations[n].host for n in made_of(self.operations, core.mix.sources[0]) if self.data[n])
        if any(
            _sums_to_1(x, axis) for x in made for axis in range(x.ndim) if x.dtype.kind == "f" and x.shape[axis] in keys
        ):
            self.note("weights", "held", "those of a query sum to 1 over the keys", line)
        elif core.steps and self._divided(np.nansum(core.steps[-1][1], 1)):
            self.note("weights", "held", "what is mixed is divided by the sums of its weights", line)

    def _counted(self) -> bool:
        """Whether the scores are made of what is added to, or taken from, numbers that count the keys."""
        core = self.core
        keys = {core.weights.shape[axis] for axis in core.key_axes}
        for number in {core.scores.number, *made_of(self.operations, core.scores.number)}:
            for x in self.operations[number].operands if self.operations[number].name in SUMS else ():
                by = np.diff(x.ravel().astype(float)) if x.size in keys and x.size == max(x.shape) > 2 else np.zeros(1)
                if by[0] and np.allclose(by, by[0]):
                    return True
        return False

    def _batched(self, x: np.ndarray) -> np.ndarray:
        """What each row of the weights has, (batch, queries, …)."""
        core = self.core
        labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
        order = [labels.index(a) for a in core.mix.batch + core.mix.rows]
        rows = int(np.prod([core.shape[labels.index(a)] for a in core.mix.rows]))
        whole = x.reshape(*core.shape, x.shape[-1])
        return whole.transpose([*order, whole.ndim - 1]).reshape(-1, rows, x.shape[-1])

    def _own_axes(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Places of the queries, (batch, queries, axes), and axes of which each row of the batch has a place."""
        assert self.core.place is not None
        found, keys = {}, self.alignment.side(self.core, 1)
        for name, at in self.alignment.side(self.core, 0).items():
            rows = self._batched(at.reshape(-1, at.shape[-1])[self.core.place[:, 0]])
            if not rows.size or not np.isfinite(rows).all(2).any(1).all():
                continue
            # Of a query that is not known, such as one of zeros, what all others of its row agree on.
            rows = np.where(np.isnan(rows), np.nanmean(rows, 1, keepdims=True), rows)
            axes = np.flatnonzero((np.ptp(rows, 1).max(0) < 0.4) & (np.ptp(rows[:, 0], 0) > 0.4))
            if name in keys:
                # Of one axis of which the keys have many places, the query of a sample may have another.
                alike = keys[name].reshape(-1, at.shape[-1])[self.core.place]
                axes = axes[~((np.fmax.reduce(alike, 1) - np.fmin.reduce(alike, 1)).max(0) > 0.4)[axes]]
            if len(axes):
                found[name] = rows, axes
        return found

    def _samples(self) -> list[int] | None:
        """Of each row of the batch of the core, which sample its queries or keys come from: heads are a later axis."""
        for at, axes in self._own_axes().values():
            # One query may have another position in each sample; of the axis of samples all are asked.
            places = [[int(b) for b in at[:, 0, axis]] for axis in axes]
            return next((one for one in places if {*one} == {*range(max(one) + 1)}), places[0])
        assert self.core.place is not None
        asked = self.alignment.side(self.core, 0)
        for keys in self.alignment.side(self.core, 1).values() if not asked else ():
            at = keys.reshape(-1, keys.shape[-1])[self.core.place]
            if np.isfinite(at).all():
                # Of queries that are learned, those of all samples are alike.
                rows = self._batched(at.mean(1))[:, 0]
                axes = np.flatnonzero((np.ptp(at, 1).max(0) < 0.4) & (np.ptp(rows, 0) > 0.4))
                return [int(b) for b in rows[:, axes[0]]] if len(axes) else None
        return None

    def _own_keys(self) -> np.ndarray | None:
        """Which key, of rows × keys, is of the place that the query is of; None where they are of different things."""
        assert self.core.place is not None
        keys = self.alignment.side(self.core, 1)
        for name, at in self.alignment.side(self.core, 0).items():
            if name in keys:
                one, two = (x.reshape(-1, x.shape[-1])[self.core.place] for x in (at, keys[name]))
                return np.asarray((np.abs(one - two) < 0.4).all(-1))
        return None

    def _line_of(self, numbers: np.ndarray) -> Line | None:
        """Where numbers, in whatever order, were first computed."""
        want = np.sort(numbers.ravel())
        same = (op for op in self.operations if op.host.size == want.size and op.host.dtype.kind == "f")
        return next((op.line for op in same if near(np.sort(op.host.ravel()), want, 1e-4)), None)

    def _appears(self, made: np.ndarray, after: int) -> bool:
        """Whether numbers, in whatever order, are what a later operation gave, or rows of what was returned."""
        # What is all but 0 has the error of what is largest.
        largest = float(np.abs(made).max(initial=0))
        error = 1e-6 * largest if np.isfinite(largest) else 1e-9
        several = [op.host for op in self.operations[after + 1 :]] + list(self.outputs)
        for x in several:
            if permuted(x, made, error):
                return True
            if x.size > made.size and x.shape[-1:] == made.shape[-1:] and _among(made, x):
                return True
        return False

    def _divided(self, sums: np.ndarray) -> Operation | None:
        """The later value that is the mixed values divided by the sums of their weights; these if none can be told."""
        core, rows = self.core, len(sums)
        mixed, own = core.mix.output, self.operations[core.mix.number]
        if mixed.size % rows or mixed.shape[0] * mixed.shape[1] != rows:
            return own
        with np.errstate(all="ignore"):
            want = mixed.reshape(rows, -1) / sums[:, None]
        return next((op for op in self.operations[core.mix.number + 1 :] if permuted(op.host, want)), None)

    def _unit(self) -> bool:
        """Whether queries and keys have the norm 1: cosines need no scale."""
        return all(
            one.factor and np.allclose((one.form**2).sum(-1) / one.factor**2, 1, rtol=1e-3) for one in (self.q, self.k)
        )


def _sums_to_1(x: np.ndarray, axis: int) -> bool:
    return bool((x >= 0).all() and np.allclose(x.sum(axis), 1, rtol=1e-5))


def _among(made: np.ndarray, rows: np.ndarray) -> bool:
    """Whether all rows of one array are rows of another one."""
    made, rows = (x.reshape(-1, x.shape[-1]) for x in (made, rows))
    # By one number for each, so that not every row is compared with every other.
    across = np.random.default_rng(0).normal(size=made.shape[1])
    rows = rows[np.argsort(rows @ across)]
    at = np.searchsorted(rows @ across, made @ across - _ROW * np.abs(across).sum())
    nearest = (rows[np.minimum(at + n, len(rows) - 1)] for n in (0, 1))
    return bool(np.logical_or.reduce([(np.abs(made - some) < _ROW).all(1) for some in nearest]).all())
