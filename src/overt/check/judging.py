"""Every step of a recorded attention, judged on the candidate's own input to that step, and then the whole.

Mistakes do not compound here: given its queries and keys, are these the scores; given its scores, is this the mask;
given its masked scores, is this the softmax over the keys.  What no step of attention is, is located.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from overt.check import additive, arrangement, pipeline, positional, projections
from overt.check.alignment import Alignment
from overt.check.ledger import Entry, Outcome
from overt.check.origins import PRODUCTS, Origin, constant_over, followed
from overt.check.pipeline import Kind, classify, constant, near, shown
from overt.recorder.core import VIEWS, Core, Product, apart, attentions, carriers, masklike, product, reaches, tempered
from overt.recorder.operations import Line, Operation

_FACTORS = {"mul", "imul", "rmul", "multiply", "div", "idiv", "true_divide", "divide", "truediv", "itruediv"}
_SUMS = {"add", "iadd", "radd", "sub", "isub", "rsub", "subtract"}
_UNKNOWN = "unknown"
Shapes = Mapping[str, tuple[int, ...]]
_BARE = "Context and state are mixed by a matrix, and there is no tanh."


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


def judge(
    operations: Sequence[Operation],
    outputs: Sequence[np.ndarray],
    *,
    causal: bool | None = None,
    given: Shapes | None = None,
    intended: Mapping[str, Any] | None = None,
) -> Judged:
    """Judge every attention of a recording.

    outputs: the arrays that the candidate returned; causal: whether it promises to hide the future, None where nothing
    is said; given: shapes of all that it has and was given, by "parameter NAME" and "argument 0"; intended: what else
    it says of itself, such as "luong", or "pairs" where queries and keys have lengths of their own.
    """
    written, found, _ = attentions(operations)
    if not found:
        written, found, _ = attentions(additive.completed(operations, outputs))
    judged = Judged(len(found))
    if not found and (intended or {}).get("luong"):
        _vector(judged, operations, outputs)
    data = carriers(written)
    used = {origin for op in operations for origin in op.origins}
    idle = {name: shape for name, shape in (given or {}).items() if name not in used}
    alignment = Alignment(written, found).follow(outputs)
    others: list[tuple[Origin, Origin, Origin]] = []
    for number, core in enumerate(_whole(found)):
        one = _Judge(core, data, outputs, causal, idle)
        one.alignment = alignment
        one.intended = intended or {}
        one.blocks = [other for other in found if other is not core and _follows(core, other)]
        one.shards = [other for other in found if other is not core and _beside(core, other) and core.normal]
        one.run()
        one.placed()
        name = f"attention {number + 1}, " if len(found) > 1 else ""
        if any(projections.alike(one.operands, other) for other in others):
            line = core.operations[core.mix.number].line
            one.fail("projection", "shared_projection", line, "Two attentions have the same queries, keys and values.")
        others.append(one.operands)
        judged.faults += [f for f in one.faults if f not in judged.faults]
        judged.ledger += [Entry(name + e.step, e.outcome, e.why, e.line, e.mistake) for e in one.ledger]
        for key, value in one.facts.items():
            judged.facts[key] = judged.facts.get(key) or value
    empty = [op.host for op in operations if op.name in ("empty", "empty_like", "new_empty") and op.host.size]
    # What was in the memory before is still there.
    left = [float((x == y).mean()) for x in empty for y in outputs if x.shape == y.shape]
    judged.facts["unwritten"] = any(0 < share < 1 for share in left)
    if "causal" in judged.facts:
        # Of a decoder's two attentions one looks at another sequence.
        judged.faults = [f for f in judged.faults if f.mistake != "causal_missing"]
        judged.ledger = [e for e in judged.ledger if e.mistake != "causal_missing"]
    if judged.facts.get("learned bias"):
        # What has learned biases in one of its attentions may have its scale in the parameters of all (T5).
        judged.faults = [f for f in judged.faults if f.mistake != "scale_missing"]
        judged.ledger = [e for e in judged.ledger if e.mistake != "scale_missing"]
    return judged


def _vector(judged: Judged, operations: Sequence[Operation], outputs: Sequence[np.ndarray]) -> None:
    """Luong's attentional vector by itself: a function of a context and a state."""
    found = additive.vector(operations, reaches(operations), outputs, None)
    if found is None:
        return
    line = operations[found[0]].line
    number, file = (None, "") if line is None else (line.number, line.file)
    judged.cores = 1
    if found[1]:
        judged.faults.append(Fault("vector", "luong_no_tanh_out", number, file, _BARE))
        judged.ledger.append(Entry("vector", "failed", _BARE, number, "luong_no_tanh_out"))
    else:
        judged.ledger.append(Entry("vector", "held", "bent after the matrix", number, None))


def _beside(core: Core, other: Core) -> bool:
    """Whether another core is the same lines once more, for the same queries and other keys."""
    lines = [(c.operations[c.mix.number].line, c.operations[c.scores.number].line) for c in (core, other)]
    other_keys = core.scores.number != other.scores.number
    return lines[0] == lines[1] and other_keys and near(core.scores.queries, other.scores.queries)


def _follows(core: Core, other: Core) -> bool:
    """Whether another core is a block of keys of the same attention, which are weighed together."""
    return _beside(core, other) and not core.normal


def _whole(found: list[Core]) -> list[Core]:
    """Of the blocks of one attention the first."""
    first: list[Core] = []
    for core in found:
        if not any(_follows(before, core) for before in first):
            first.append(core)
    return first


class _Judge:
    """One core."""

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
        self.scale_lines: list[Line | None] = []
        self.hidden: np.ndarray | None = None
        self.mask_line: Line | None = None
        self.before: np.ndarray | None = None
        self.weights: np.ndarray | None = None
        self.softmax_line: Line | None = None
        self.learned = self.fitted = False
        self.rounded: Line | None = None
        self.odd: list[str] = []
        self.blocks: list[Core] = []
        self.shards: list[Core] = []
        self.phase = "raw"
        self.intended: Mapping[str, Any] = {}
        self.reach = reaches(core.operations)
        self.sum: additive.Sum | None = None
        self.alignment = Alignment(core.operations, [])

    def fail(
        self, step: str, mistake: str, line: Line | None, says: str, expected: Any = None, actual: Any = None,
        kind: str | None = None,
    ) -> None:  # fmt: skip
        told = ("" if expected is None else shown(expected)), ("" if actual is None else shown(actual))
        number, file = (None, "") if line is None else (line.number, line.file)
        self.faults.append(Fault(step, mistake, number, file, says, *told, kind))
        self.note(step, "failed", says, line, mistake)

    def note(self, step: str, outcome: Outcome, why: str = "", line: Line | None = None, mistake: str = "") -> None:
        self.ledger.append(Entry(step, outcome, why, None if line is None else line.number, mistake or None))

    def failed(self, step: str) -> bool:
        return any(f.step == step for f in self.faults)

    def run(self) -> None:
        core = self.core
        self.q = self._followed(core.scores.queries, core.scores.sources[0], core.scores.left)
        self.k = self._followed(core.scores.keys, core.scores.sources[1], core.scores.right)
        values = core.mix.form(core.mix.right, core.mix.labels[1], core.mix.columns, core.mix.summed).swapaxes(1, 2)
        self.v = self._followed(values, core.mix.sources[1], core.mix.right)
        for name, one in (("queries", self.q), ("keys", self.k), ("values", self.v)):
            self._split(name, one)
        at = self.v.places()
        if self.v.source is None and at is not None:
            # Where the values are an argument, and which of its axes has the positions.
            along = [axis for axis, c in enumerate(at) if (c != c[:, :1]).any() and (c == c[:, :, :1]).all()]
            self.facts["values"] = [int(n) for n in self.v.array.shape]
            self.facts["value axis"] = along[0] if len(along) == 1 else None
        attended = self.reach[core.mix.sources[1]] if core.mix.sources[1] is not None else {core.mix.origins[1]}
        self.facts["attended"] = sorted(int(o.split()[-1]) for o in attended if o.startswith("argument "))
        queries, *others = self._streams()
        self.facts["queries"] = core.scores.queries.shape[1]
        if not queries & others[0].union(others[1]):
            self.facts["asked by others"] = sorted(
                int(o.split()[-1]) for o in others[0] | others[1] if "argument " in o
            )
        if self.intended.get("operands"):
            self.facts["operands"] = {"q": core.scores.queries.tolist(), "k": core.scores.keys.tolist()}
        if not core.steps or core.steps[-1][1].shape[1] < 2 or core.steps[-1][1].size < 3:
            self.note("scores", "not tried", "there is one key, to which every query attends whatever is done")
            return
        if self._keyless():
            return
        if core.place is None:
            self._lost()
            return
        self.sum = additive.anatomy(core, self.reach)
        if np.abs(core.steps[0][1]).max() < 1e-6:
            self.note("scores", "not tried", "the scores are all but 0, where every mistake gives the same weights")
            return
        self._walk()
        self._added()
        if self.phase == "raw" and self.odd:
            # Without a softmax and with steps of no attention there is nothing to measure by.
            return
        positive = all((one.form >= 0).all() for one in (self.q, self.k))
        if positive or (not core.normal and not self._features()):
            self.note("scores", "not tried", "what is summed are positions, or features that are mapped first")
            return
        self._scale()
        if self.blocks:
            self._joined()
            return
        self._softmax()
        self._mask()
        self._dropped()
        self._shared()
        self._grouped()
        self._merge()
        self._paired()
        self._returned()
        parts = self._parts(self.shards) if self.shards else None
        if parts is not None and not self._pieces(parts):
            self._in_base_2(parts)
        self._made()
        self._whole()

    @property
    def operands(self) -> tuple[Origin, Origin, Origin]:
        """Queries, keys and values."""
        return self.q, self.k, self.v

    def placed(self) -> None:
        """Where its positions come in, and how its operands lie."""
        self.facts |= arrangement.seen(self.core, (self.q, self.k, self.v))
        for one in positional.told(self.core, self.data, (self.q, self.k, self.v), self.intended, self.facts):
            self.ledger = [e for e in self.ledger if (e.step, e.outcome) != (one.step, "not tried")]
            if one.mistake:
                self.fail(one.step, one.mistake, one.line, one.says, one.expected, one.actual)
            else:
                self.note(one.step, "not tried" if one.mistake is None else "held", one.says, one.line)

    # Scores that are added up, and what a decoder makes of its context.

    def _keyless(self) -> bool:
        """Scores that do not look at the keys: the same for all of them, or made of something else alone."""
        core = self.core
        raw = core.steps[0][1] if core.place is not None else None
        level = raw is not None and raw.shape[1] > 2 and constant(raw, 1, 1e-9) and not constant(self.v.form, 1)
        # Values of one number each are some other thing that was given by mistake.
        if self.v.form.shape[2] < 2 or not (level or apart(core, self.reach)):
            return False
        line = self.operations[core.scores.number].line
        self.fail("scores", "additive_ignores_keys", line, "What is attended to does not enter the scores.")
        return True

    def _added(self) -> None:
        """An additive score: every query meets every key in the sum, and the sum is bent."""
        made = self.sum
        if made is None:
            return
        line = self.operations[made.number].line
        self.facts["additive"] = True
        asking = [part for part in made.parts if made.asks(part)]
        asked = [part for part in made.parts if not made.asks(part)]
        alike = all(a.reach & b.reach for a in asked for b in asked if a is not b)
        if not asking and not alike and not made.joined and all(part.mapped for part in asked):
            rows = self.core.mix.output.size * made.parts[0].value.shape[made.axis]
            many = self.intended.get("pairs") or any(x.size == rows for x in self.outputs)
            if not many:
                # Perhaps one query is meant, and it was given as many as there are keys.
                self.note("scores", "not tried", "one query for each key, added position by position", line)
                return
            says = "Queries and keys are added position by position, so a query meets one key."
            self.fail("scores", "additive_no_pairwise", line, says)
        if not made.bent and (asking or self.failed("scores")) and asked and not self.odd:
            says = "Nothing bends the sum of query and key, so the query adds the same to every score."
            self.fail("scores", "additive_no_tanh", line, says)

    def _made(self) -> None:
        """Luong's vector of context and state; and whether the context goes anywhere."""
        core = self.core
        found = (
            additive.vector(self.operations, self.reach, self.outputs, core.mix.number)
            if self.intended.get("luong")
            else None
        )
        if found is not None and found[1]:
            self.fail("vector", "luong_no_tanh_out", self.operations[found[0]].line, _BARE)
        elif found is not None:
            self.note("vector", "held", "bent after the matrix", self.operations[found[0]].line)

    # What is fed in.

    def _followed(self, form: np.ndarray, source: int | None, operand: np.ndarray) -> Origin:
        return followed(self.operations, self.data, form, source, operand)

    def _split(self, name: str, one: Origin) -> None:
        """Heads that a reshape alone split off: each of them has some positions' numbers, and not its own features."""
        n, length, width = one.form.shape
        whole = one.array
        if n < 2 or length < 2 or whole.ndim < 2:
            return
        step = "split"
        for number in reversed(one.views):
            operation = self.operations[number]
            x = operation.operands[0]
            heads = x.shape[-1] // width if x.ndim > 1 and x.shape[-1] % width == 0 else 0
            # The one that takes the flat width apart.
            if x.ndim < 2 or operation.host.shape[-1] == x.shape[-1] or heads < 2 or length not in x.shape[:-1]:
                continue
            flat = one.form / one.factor
            if x.size == flat.size and np.allclose(x.ravel(), flat.ravel(), rtol=1e-6, atol=1e-12):
                right = x.reshape(-1, length, heads, width).swapaxes(1, 2).reshape(-1, length, width)
                self.fail(
                    step, "split_view", operation.line,
                    f"The heads of the {name} hold the features of other positions.", right[:, 1], flat[:, 1],
                )  # fmt: skip
            else:
                self.note(step, "held", f"{name}: {heads} heads of {width}", operation.line)
            return

    # From scores to weights.

    def _walk(self) -> None:
        core = self.core
        self.total = self.q.factor * self.k.factor
        self.scale_lines = [*self.q.lines, *self.k.lines]
        phase, shifted, capped = "raw", "", False
        tentative: list[Any] = []
        strange: list[tuple[Kind, int, np.ndarray, np.ndarray]] = []
        scores_line = self.operations[core.scores.number].line
        self.note("scores", "held", "a product of queries and keys" if core.two else "a score", scores_line)
        for at, ((_, x), (number, y)) in enumerate(pairwise(core.steps), 1):
            if number is None:
                continue
            operation = self.operations[number]
            line = operation.line
            kind = classify(x, y, operation, self._dependent(operation))
            if kind.detail == "rounded":
                self.rounded = self.rounded or line
                exact, final = pipeline.softmax(x, (1,)), core.steps[-1][1]
                if phase == "raw" and np.allclose(exact, final, rtol=2**-5, atol=2**-8):
                    # What is done in few digits is no step by itself.
                    self.before, self.weights, self.softmax_line, phase = x, final, line, "prob"
                    break
            if kind.name == "same":
                # What is multiplied by 1 is scaled by whoever gives the factor.
                self.learned |= phase == "raw" and operation.name in _FACTORS
                continue
            if phase == "raw" and any(near(_sigmoid(sign * x), end) for sign in (1, -1) for _, end in core.steps[at:]):
                self.odd.append("sigmoid")
                self.note("softmax", "not tried", "each weight is the sigmoid of its score", line)
                break
            if phase == "raw" and kind.name in ("rowscale", "unknown") and self._cosines(y):
                self.learned, self.before = True, None
                continue
            if kind.name in ("term", "bias", "unknown") and self._largest(x, y):
                kind = Kind("shift", detail="other")
            if kind.name == "zero" and phase == "raw" and ((x < 0) == kind.cells).all():
                kind = Kind("function", detail="relu")
            if (
                phase == "raw"
                and kind.name in ("scale", "rowscale")
                and np.allclose(y.sum(1), 1, rtol=1e-6)
                and self._normalises(x, y)
            ):
                # One row, divided by its sum.
                self.before, self.weights, self.softmax_line, phase = x, y, line, "prob"
            elif phase == "exp" and kind.name not in ("zero", "mask"):
                phase, self.weights, self.softmax_line = "prob", y, line
            elif kind.name in ("mask", "mask_sign_inf"):
                before = self.hidden
                self._hide(kind.cells, line)
                self._filled(number, x[kind.cells], y[kind.cells])
                # What is turned round later is hidden in the end.
                if kind.name == "mask_sign_inf" and not (core.steps[-1][1][kind.cells] == 0).all():
                    self.fail("mask", "mask_sign_inf", line, "Hidden scores become +inf.", -np.inf, y[kind.cells])
                    # What follows is NaN.
                    break
                if phase == "prob":
                    tentative.append((line, x, y, before))
            elif kind.name == "scale" and phase == "prob" and tentative and kind.number > 1 + 1e-6:
                dropped, x, _, self.hidden = tentative.pop()
                says = f"Weights are dropped, and the rest multiplied by {kind.number:.3g}, where nothing is trained."
                self.fail("dropout", "dropout_eval", dropped, says, x, y)
            elif kind.name == "zero" and phase == "prob" and abs(kind.number - 1) > 1e-6:
                says = f"Weights are dropped, and the rest multiplied by {kind.number:.3g}, where nothing is trained."
                self.fail("dropout", "dropout_eval", line, says, x, y)
            elif kind.name == "zero":
                if phase == "prob":
                    tentative.append((line, x, y, self.hidden))
                elif phase == "raw":
                    says = "Hidden scores become 0, and exp(0) is 1."
                    self.fail("mask", "mask_times_scores", line, says, -np.inf, y[kind.cells])
                self._hide(kind.cells, line)
            elif kind.name in ("fill", "weak") and phase == "raw":
                small = kind.name == "fill" and abs(kind.number) < 1e-3
                says = f"Hidden scores {'become' if kind.name == 'fill' else 'lose only'} {abs(kind.number):.4g}."
                self.fail(
                    "mask", "mask_times_scores" if small else "mask_fill_too_small", line, says, -np.inf, y[kind.cells]
                )
                self._hide(kind.cells, line)
            elif kind.name == "add01" and phase == "raw":
                self.fail("mask", "mask_bool_as_float", line, "0 and 1 are added to the scores.", x, y)
                self.before = None
            elif kind.name == "scale" and phase == "raw":
                self.total *= kind.number
                self.before = None if self.before is None else self.before * kind.number
                self.scale_lines.append(line)
                self.learned = self.learned or self._of_parameters(number)
            elif kind.name == "rowscale" and phase == "raw":
                # A factor for each head, or for each query.
                self.learned, self.before = True, None
            elif kind.name == "tanh":
                capped = self.facts["capped"] = True
                if self.hidden is not None:
                    self.fail("softcap", "softcap_after_mask", line, "Hidden scores are capped too.", x, y)
            elif kind.name == "shift":
                shifted = kind.detail if constant(y.max(axis=1), tolerance=1e-9) or kind.detail != "all" else "all"
                self.before = x if self.before is None else self.before
            elif kind.name in ("exp", "exp2"):
                self._exponential(kind, x, line, shifted, capped)
                phase, self.weights, self.softmax_line = "exp", y, line
            elif kind.name == "softmax":
                self.before = x if self.before is None else self.before
                phase, self.weights, self.softmax_line = "prob", y, line
            elif kind.name == "normalise":
                tentative.clear()
                phase, self.weights = "prob", y
                self.softmax_line = self.softmax_line or line
            elif phase == "raw" and kind.name in ("bias", "term"):
                if kind.cells.any():
                    self._hide(kind.cells, line)
                self.facts[kind.name] = line.number if line else None
                self.before = None
                if operation.name in ("sub", "subtract", "rsub") and self._second(number):
                    self.total = -self.total
                self.facts["learned bias"] = self.facts.get("learned bias") or self._of_parameters(number)
            elif phase == "raw" and self._normalises(x, y):
                self.before, self.weights, self.softmax_line, phase = x, y, line, "prob"
            elif kind.name == "unknown" and phase in ("raw", "prob") and self._free(number):
                # A learned or a given number is nobody's mistake.
                self.learned, self.before = True, None
                self.odd.append(operation.name)
                self.note("scores", "not tried", "the scores are multiplied by numbers that are learned or given", line)
            elif kind.name in ("unknown", "function") or phase == "prob":
                strange.append((kind, number, x, y))
        measured = tempered(core.steps[0][1], core.steps[-1][1]) if strange or phase == "raw" else None
        if measured is not None:
            # However it was come by, it is a softmax of the scores over some of the keys.
            strange.clear()
            self.odd.clear()
            self._measured(*measured)
            phase, self.fitted = "prob", True
        self.phase = phase
        several = any(
            self.operations[n].name in _SUMS and self._dependent(self.operations[n]) for _, n, _, _ in strange
        )
        for kind, number, x, y in strange:
            self._odd(kind, self.operations[number], x, y, several)
        for line, x, y, _ in tentative:
            says = "The weights are masked after the softmax, so hidden keys still count in the sum."
            if not self._after(line):
                self.fail("mask", "mask_after_softmax", line, says, x, y)

    def _measured(self, factor: float, kept: np.ndarray) -> None:
        """Scale and hidden cells, read off the weights."""
        raw, weights = self.core.steps[0][1], self.core.steps[-1][1]
        self.total = self.q.factor * self.k.factor * factor
        self.weights, self.before = weights, np.where(kept, factor * raw, -np.inf)
        number = self.core.steps[-1][0]
        self.softmax_line = self.operations[self.core.mix.number if number is None else number].line
        if not kept.all():
            self.hidden = ~kept
            self.mask_line = self.mask_line or self.softmax_line
            # Scores of the keys that are kept, and of those that are not.
            inside = np.where(kept, factor * raw, -np.inf).max(1)
            outside = np.where(kept, np.inf, factor * raw).min(1)
            some = ~kept.all(1)
            if some.sum() > 2 and (inside < outside)[some].all():
                says = "The keys with the largest scores are hidden."
                self.fail("mask", _UNKNOWN, self.mask_line, says)

    def _after(self, line: Line | None) -> bool:
        """Whether the output is divided by the row sums later on."""
        del line
        final = self.core.steps[-1][1]
        return self._divided(np.nansum(final, 1))

    def _second(self, number: int) -> bool:
        """Whether the scores are what is subtracted."""
        path = {*self.core.path, self.core.scores.number}
        sources = self.operations[number].sources
        return len(sources) == 2 and sources[1] in path and sources[0] not in path

    def _cosines(self, y: np.ndarray) -> bool:
        """Whether scores were divided by the norms of their queries and keys."""
        queries, keys = (np.linalg.norm(one.form, axis=2) for one in (self.q, self.k))
        bare = self.core.steps[0][1]
        norms = self._laid(queries[:, :, None] * keys[:, None])
        with np.errstate(all="ignore"):
            return norms is not None and constant(y * norms / bare, tolerance=1e-4)

    def _laid(self, cells: np.ndarray) -> np.ndarray | None:
        """Cells (batch, rows, columns) of the scores as rows × keys."""
        scores, place = self.core.scores, self.core.place
        numbers = np.arange(scores.result.size).reshape(scores.result.shape)
        at = scores.form(numbers, scores.labels[2], scores.rows, scores.columns)
        if place is None or at.shape != cells.shape:
            return None
        flat = np.empty(at.size)
        flat[at.ravel()] = cells.ravel()
        return flat[place]

    def _dependent(self, operation: Operation) -> bool:
        """Whether more than one operand depends on the arguments' data."""
        known = [
            self.data[s] if s is not None else o.startswith("argument") and not masklike(x)
            for s, o, x in zip(operation.sources, operation.origins, operation.operands, strict=True)
        ]
        return sum(known) > 1

    def _largest(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether the largest along some axes was subtracted."""
        shape = (*self.core.shape, x.shape[1])
        one, two = x.reshape(shape), y.reshape(shape)
        with np.errstate(all="ignore"):
            gap = np.where(np.isfinite(one) & np.isfinite(two), one - two, np.nan)
            for axes in pipeline._subsets(one.ndim):
                top = np.broadcast_to(one.max(axis=axes, keepdims=True), shape)
                live = np.isfinite(gap) & np.isfinite(top) & (one > pipeline.LOW)
                if live.any() and np.allclose(gap[live], top[live], rtol=1e-5, atol=1e-7):
                    return True
        return False

    def _normalises(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether what came from raw scores at once is a softmax over some axes, or the scores by their sum."""
        mistake, known = pipeline.softmax_mistake(self.core, x, y)
        return known and (mistake is not None or bool(self.core.normal))

    def _hide(self, cells: np.ndarray, line: Line | None) -> None:
        self.hidden = cells if self.hidden is None else self.hidden | cells
        if self.before is not None and self.weights is None:
            self.before = np.where(cells, -np.inf, self.before)
        self.mask_line = self.mask_line or line

    def _filled(self, number: int, x: np.ndarray, y: np.ndarray) -> None:
        """What hidden scores become: a number that larger scores outdo, unless somebody gave it."""
        operation = self.operations[number]
        fill = float((y if constant(y) else y - x).max())
        if any(o.startswith("argument") and x.dtype.kind == "f" and (x < pipeline.LOW).any()
               for one in self.operations for o, x in zip(one.origins, one.operands, strict=True)):  # fmt: skip
            return
        if -3e4 < fill < pipeline.LOW and operation.line is not None:
            self.facts["fill"] = {"line": operation.line.number, "file": operation.line.file, "expected": ""}

    def _exponential(self, kind: Kind, x: np.ndarray, line: Line | None, shifted: str, capped: bool) -> None:
        if self.before is None:
            self.before = x
        if kind.name == "exp2":
            self.facts["base 2"] = True
            self.total *= float(np.log(2))
            self.before = self.before * np.log(2)
        bounded = capped or self._unit()
        if not shifted and not bounded:
            self.fail("stability", "no_max", line, "exp is taken without subtracting the maximum of the row.")
        elif shifted == "all" and x.shape[0] > 1 and not bounded:
            self.fail("stability", "global_max", line, "The maximum of all rows is subtracted from each.")
        else:
            self.note("stability", "held", "the maximum is subtracted first", line)

    def _odd(self, kind: Kind, operation: Operation, x: np.ndarray, y: np.ndarray, several: bool) -> None:
        """several: whether the weights of more than one attention are put together."""
        self.odd.append(operation.name)
        linear = operation.name in PRODUCTS or operation.name.startswith("conv")
        # Without a softmax, fixed numbers may weigh the scores, as the decay of a retention does (Sun et al. 2023).
        linear |= self.phase == "raw" and operation.name in _FACTORS and not self._dependent(operation)
        if kind.name == "function" or linear or several:
            self.note("scores", "not tried", f"{operation.name} is no step of plain attention", operation.line)
        else:
            says = f"{operation.name} makes of the scores what no step of attention does."
            self.fail("scores", _UNKNOWN, operation.line, says, x, y)

    # Each step.

    def _unit(self) -> bool:
        """Whether queries and keys have the norm 1: cosines need no scale."""
        return all(
            one.factor and np.allclose((one.form**2).sum(-1) / one.factor**2, 1, rtol=1e-3) for one in (self.q, self.k)
        )

    def _normed(self, source: int | None) -> bool:
        """Whether all rows had one norm on the way from the projection to the scores."""
        width, open_, seen = self.core.scores.width, [source], set[int]()
        while open_:
            number = open_.pop()
            if number is None or number in seen or self.operations[number].name in PRODUCTS:
                continue
            seen.add(number)
            x = self.operations[number].host
            rows = np.linalg.norm(x, axis=-1) if x.ndim > 1 and x.shape[-1] == width and x.dtype.kind == "f" else None
            if rows is not None and rows.size > 3 and rows.min() > 0 and np.allclose(rows, rows.ravel()[0], rtol=1e-3):
                return True
            open_ += self.operations[number].sources
        return False

    def _scale(self) -> None:
        core = self.core
        width = core.scores.width
        line = next((x for x in self.scale_lines[::-1] if x), None) or self.operations[core.scores.number].line
        self.facts["scale"] = self.total
        if not core.two or core.outer or width < 2:
            self.note("scale", "not tried", "the score is no product of two", line)
            return
        if any(len(one.along() or [0]) > 1 for one in (self.q, self.k)):
            self.note("scale", "not tried", "the numbers that are summed belong to several positions", line)
            return
        owned = self._widths(parameters=True)
        if owned and width > 2 and not any(n % width == 0 for n in owned):
            why = f"{width} numbers are summed that are no features, as in attention of channels"
            self.note("scale", "not tried", why, line)
            return
        if self._unit() or self.learned or self.sum is not None:
            self.note("scale", "held", "cosines, a learned scale or an additive score need no 1/√d", line)
            return
        if all(self._normed(source) for source in core.scores.sources) and abs(self.total * width**0.5 - 1) > 2e-3:
            self.note("scale", "not tried", "queries and keys are normed, and then any scale may be meant", line)
            return
        # One query without heads is a decoder's state: Luong's dot score has no scale.
        alone = core.scores.queries.shape[1] == 1 and core.scores.queries.shape[0] <= max(core.scores.left.shape[0], 1)
        # Keys of several queries are some graph's.
        keys = core.scores.keys.reshape(-1, width)
        alone = (alone and len(np.unique(keys, axis=0)) == len(keys)) or self._memory()
        n = core.scores.queries.shape[0]
        heads = {n // b for b in range(1, n + 1) if n % b == 0 and n // b > 1}
        widths = {width * h for h in heads} & self._widths()
        widths |= {w for w in (self.q.array.shape[-1:] + self.k.array.shape[-1:]) if w != width}
        several = {h for h in heads if width * h in widths} | self._headed()
        # What one head is projected from is as wide as all of them.
        widths |= {made.width for made in map(self._projected, (self.q, self.k)) if made} - {width}
        mistake = pipeline.scale_mistake(core, self.total, width, several, widths)
        want = width**-0.5
        if mistake == "scale_seqlen" and any(n % x == 0 for n in owned for x in core.weights.shape[-2:] if x > 1):
            mistake = None
        if mistake == "":
            self.note("scale", "held", f"1/√{width}", line)
        elif mistake is None and self.total < 0:
            says = f"The scores are multiplied by {self.total:.4g}, so the least alike get the largest weights."
            self.fail("scale", _UNKNOWN, line, says, want, self.total)
        elif mistake is None:
            self.note(
                "scale", "not tried", f"scores are multiplied by {self.total:.4g}; 1/√{width} is {want:.4g}", line
            )
            self.facts["odd scale"] = line.number if line else None
        elif mistake == "scale_missing" and self.intended.get("unscaled"):
            self.note("scale", "held", "there is none, as is said", line)
        elif mistake == "scale_missing" and "term" in self.facts:
            self.note("scale", "not tried", "other terms of the queries and keys are part of the scores", line)
        elif mistake == "scale_missing" and self.facts.get("learned bias"):
            self.note("scale", "not tried", "beside a learned bias the scale may lie in the parameters (T5)", line)
        elif mistake == "scale_missing" and (alone or self._pixels()):
            why = "dot scores of a memory (Luong et al. 2015) and of pixels (Wang et al. 2018) have no scale"
            self.note("scale", "not tried", why, line)
        else:
            says = f"The scores are multiplied by {self.total:.4g}; 1/√{width} is {want:.4g}."
            self.fail("scale", mistake, line, says, want, self.total)

    def _headed(self) -> set[int]:
        """How many heads the queries have, where these have an axis behind that of the samples."""
        at = self.q.places() or []
        own = [c for c in at if constant_over(c) and len(np.unique(c)) > 1]
        return {len(np.unique(own[-1]))} if len(own) > 1 else set()

    def _projected(self, one: Origin) -> Product | None:
        """The product that made queries, keys or values, behind a bias, where there is one."""
        number = one.source
        while number is not None:
            made = product(self.operations, number)
            sources = [s for s in self.operations[number].sources if s is not None and self.data[s]]
            if made is not None or self.operations[number].name not in _SUMS or len(sources) != 1:
                return made
            number = sources[0]
        return None

    def _streams(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """What queries, keys and values are made of."""
        core = self.core
        sides = [*zip(core.scores.sources, core.scores.origins, strict=True)]
        sides.append((core.mix.sources[1], core.mix.origins[1]))
        q, k, v = (self.reach[s] if s is not None else frozenset({o} - {""}) for s, o in sides)
        return q, k, v

    def _memory(self) -> bool:
        """Whether another's states are mixed as they are, by scores of these same states: Luong's dot and general."""
        queries, keys, values = self._streams()
        whole = self.v.source is None and self.v.form.shape[-1] == self.v.array.shape[-1]
        return whole and len(values) == 1 and values <= keys and not values & queries

    def _features(self) -> bool:
        """Whether products are summed over the axis that features have, and not over positions."""
        for one in (self.q, self.k):
            along = one.along()
            if along is not None:
                made = None if one.source is None else self.operations[one.source].name
                if along != [1 if (made or "").startswith("conv") else one.array.ndim - 1]:
                    return False
        return True

    def _pixels(self) -> bool:
        """Whether queries and keys are made by convolutions and have no heads, as in non-local blocks."""
        made = [None if one.source is None else self.operations[one.source] for one in (self.q, self.k)]
        return all(op is not None and op.name.startswith("conv") and len(op.host) == len(one.form)
                   for op, one in zip(made, (self.q, self.k), strict=True))  # fmt: skip

    def _widths(self, parameters: bool = False) -> set[int]:
        """Widths of arguments and parameters, or of these alone."""
        return {
            n
            for operation in self.operations[: self.core.mix.number + 1]
            for x, origin in zip(operation.operands, operation.origins, strict=True)
            if origin.startswith("parameter" if parameters else "") and origin
            for n in (x.shape if origin.startswith("parameter") else x.shape[-1:])
        }

    def _free(self, number: int) -> bool:
        """Whether the scores are multiplied by what is learned, or by what is given and nothing else depends on."""
        operation = self.operations[number]
        path = {*self.core.path, self.core.scores.number}
        others = [(s, o) for s, o in zip(operation.sources, operation.origins, strict=True) if s not in path]
        mine = frozenset[str]().union(*(self.reach[s] if s is not None else {o} - {""} for s, o in others))
        rest = frozenset[str]().union(*self._streams())
        return operation.name in _FACTORS and (self._of_parameters(number) or (bool(mine) and not mine & rest))

    def _of_parameters(self, number: int) -> bool:
        """Whether what an operation adds comes from parameters."""
        return self._comes_from(number, "parameter")

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

    def _softmax(self) -> None:
        core, line = self.core, self.softmax_line or self.operations[self.core.mix.number].line
        final = core.steps[-1][1]
        if any(f.mistake == "mask_sign_inf" for f in self.faults):
            return
        asks = self.intended.get("asks")
        if asks and self.operations[core.mix.number].detail == "returned" and core.two:
            queries, keys, _ = self._streams()
            if queries == {f"argument {asks[1]}"} and keys == {f"argument {asks[0]}"}:
                self.fail("softmax", "softmax_axis_q", line, "The weights of a key sum to 1, over the queries.")
                return
        if self.phase == "raw" or self.weights is None or self.before is None:
            if not self.odd:
                self.fail("softmax", "softmax_missing", line, "The scores mix the values without a softmax.")
            return
        if self.phase == "exp":
            sums = np.nansum(final, 1)
            if self._divided(sums):
                self.note("softmax", "held", "divided by the sums after the values are mixed", line)
                return
            self.weights = final
        before = self.before
        mistake, known = pipeline.softmax_mistake(core, before, self.weights)
        live = ~np.isneginf(before).all(1)
        right = pipeline.softmax(before, (1,))
        if known and mistake is None:
            self.note("softmax", "held", "over the keys", line)
        elif known and mistake is not None:
            # One maximum for all is right where all are summed.
            self.faults = [f for f in self.faults if f.mistake != "global_max"]
            self.ledger = [e for e in self.ledger if e.mistake != "global_max"]
            if mistake == "no_exp_norm":
                # Of what is divided by its sum, no scale is left.
                self.faults = [f for f in self.faults if f.step != "scale"]
                self.ledger = [e for e in self.ledger if e.step != "scale"]
            self.fail(
                "softmax", mistake, line, "The weights are no softmax over the keys.", right[live], self.weights[live]
            )
        elif self.hidden is not None and near(self._renormalised(right), self.weights, 1e-4):
            self.note("softmax", "held", "over the keys that are seen", line)
        elif self.hidden is not None and near(np.where(self.hidden, 0, right), self.weights, 1e-4):
            says = "Exponentials are masked, and their sums are those of all keys."
            self.fail("mask", "mask_after_softmax", self.mask_line, says, right[live], self.weights[live])
        elif self.odd:
            self.note("softmax", "not tried", "the scores before it were not understood", line)
        elif self.phase == "exp":
            self.note("softmax", "not tried", "exponentials, whose sums are taken somewhere else", line)
        elif self.rounded is not None and np.allclose(right[live], self.weights[live], rtol=2**-5, atol=2**-8):
            says = "Scores or weights are kept in half precision."
            self.fail("softmax", "softmax_low_precision", self.rounded, says, right[live], self.weights[live])
        elif self.fitted or self._quiet(before, self.weights):
            self.note("softmax", "held", "over the keys and one more that has no value", line)
        else:
            self.fail(
                "softmax", _UNKNOWN, line, "The weights are no softmax of the scores over the keys.", right[live],
                self.weights[live],
            )  # fmt: skip

    def _renormalised(self, right: np.ndarray) -> np.ndarray:
        assert self.hidden is not None
        kept = np.where(self.hidden, 0, right)
        with np.errstate(all="ignore"):
            return np.asarray(kept / kept.sum(1, keepdims=True))

    def _quiet(self, before: np.ndarray, weights: np.ndarray) -> bool:
        """exp(s) / (1 + Σ exp(s)), as where a row may attend to nothing."""
        powers = np.exp(before)
        return near(powers / (1 + powers.sum(1, keepdims=True)), weights, 1e-4)

    def _divided(self, sums: np.ndarray) -> bool:
        """Whether a later value is the mixed values divided by the sums of their weights."""
        core = self.core
        mixed = core.mix.output
        rows = len(sums)
        if mixed.size % rows:
            return True
        per = mixed.reshape(rows, -1) if mixed.shape[0] * mixed.shape[1] == rows else None
        if per is None:
            return True
        with np.errstate(all="ignore"):
            want = np.sort(np.abs(per / sums[:, None]).ravel())
        return any(
            op.host.size == mixed.size and np.allclose(np.sort(np.abs(op.host).ravel()), want, rtol=1e-4)
            for op in self.operations[core.mix.number + 1 :]
        )

    def _mask(self) -> None:
        core = self.core
        hidden = self.hidden
        given = self._arguments()
        if hidden is None or not hidden.any():
            dropped = self._unused()
            if dropped is not None:
                says = f"The result of {dropped.name} is dropped, so the mask hides nothing."
                self.fail("mask", "not_inplace", dropped.line, says)
            elif any(self._comes_from(number, "argument") for number in core.path):
                self.facts["mask given"] = True
                self.note("mask", "not tried", "what was given hid nothing in the scores")
            elif self.promised and core.scores.queries.shape[1] > 1 and not self.failed("mask"):
                says = "Every query sees the keys that come after it."
                self.fail("causal", "causal_missing", self.softmax_line, says)
            elif not self.failed("mask"):
                self.note("mask", "not tried", "no mask was given")
            return
        self._overflowed()
        cells = self._batched(hidden)
        self.facts["hidden"] = int(cells.sum())
        compared = self._compare(given, cells) or self._numbers(cells) or self._misplaced(cells)
        self._causal(cells, bool(given))
        if not compared and not self.failed("mask"):
            self.note("mask", "held", f"{cells.mean():.0%} of the cells are hidden", self.mask_line)

    def _overflowed(self) -> None:
        """Finite numbers whose sum is infinite, and hides: two masks of the lowest number of a dtype."""
        if not any(np.isneginf(x).any() for _, x in self.core.steps):
            return
        for operation in self.operations[: self.core.mix.number]:
            finite = all(x.dtype.kind == "f" and np.isfinite(x).all() for x in operation.operands)
            if operation.name in _SUMS and finite and np.isneginf(operation.host).any():
                says = "The lowest numbers of two masks are added, which is -inf."
                self.fail("mask", "mask_finfo_sum", operation.line, says, operation.operands[-1].min(), -np.inf)
                return

    def _arguments(self) -> list[np.ndarray]:
        """Masks among the arguments, as they were when they were first read."""
        found: dict[str, np.ndarray] = {}
        for operation in self.operations:
            for origin, x in zip(operation.origins, operation.operands, strict=True):
                if origin.startswith("argument") and masklike(x) and x.ndim and x.size > 1:
                    found.setdefault(origin, x)
        return list(found.values())

    def _compare(self, given: list[np.ndarray], cells: np.ndarray) -> bool:
        """The mask that was given against the cells that are hidden: its polarity, and whose mask each sample got."""
        N, T, S = cells.shape
        for mask in given:
            additive = bool((mask.astype(float) < -1e3).any())
            seen = (mask > -1e3) if additive else mask.astype(bool)
            if seen.shape[-1] != S or seen.all() or not seen.any():
                continue
            if (seen.ndim > 1 and seen.shape[-2] == T and seen.ndim != 2) or seen.shape == (T, S):
                seen = seen.reshape(-1, T, S)
            elif seen.size % S == 0 and (seen.ndim < 2 or T not in seen.shape[-2:-1] or seen.ndim == 2):
                seen = np.repeat(seen.reshape(-1, 1, S), T, 1)
            else:
                continue
            if len(np.unique(seen.reshape(len(seen), -1), axis=0)) != len(seen):
                continue
            for polarity, hides in (("keep", ~seen), ("drop", seen)):
                ways = ([[b for b in range(len(seen)) if np.array_equal(hides[b] | more, cells[n])] for n in range(N)]
                        for more in (np.zeros((T, S), bool), np.triu(np.ones((T, S), bool), S - T + 1)))  # fmt: skip
                # By itself, or beside a causal mask.
                who = next((w for w in ways if all(len(some) == 1 for some in w)), None)
                # One sample's mask for all of them is none: what it hides is hidden anyway.
                if who is None or (len(seen) > 1 and len({w[0] for w in who}) == 1):
                    continue
                if additive and polarity == "drop":
                    says = "The zeros of an additive mask, which mean visible, hide."
                    self.fail("mask", "mask_float_as_bool", self.mask_line, says)
                    return True
                self.facts["polarity"] = "additive" if additive else polarity
                samples = [w[0] for w in who]
                per = N // len(seen)
                folds = ([n // per for n in range(N)], [n % len(seen) for n in range(N)])
                mine = self._samples()
                if len(seen) > 1 and mine is not None and len(set(mine)) == len(seen) and samples != mine:
                    says = "Samples get the masks of other samples."
                    self.fail("mask", "mask_fold_order", self.mask_line, says, mine, samples)
                elif len(seen) == 1 or samples in folds:
                    self.note("mask", "held", f"the mask that was given, read as {polarity}", self.mask_line)
                return True
            whole = [any(np.array_equal(h, c) for h in (s.T if s.shape[0] == s.shape[1] else s for s in seen))
                     for c in cells]  # fmt: skip
            whole += [all(np.array_equal(~c.T if T == S else c, c) for c in cells)]
            if mask.ndim == 2 and T == S and self._on_queries(~seen[:, 0], cells):
                self.fail("mask", "pad_on_query", self.mask_line, "Whole queries are hidden, and no keys.")
                return True
        return False

    def _numbers(self, cells: np.ndarray) -> bool:
        """The cells that are hidden against the lengths, or the words, that were given."""
        N, _, S = cells.shape
        counts: dict[str, np.ndarray] = {}
        words: dict[str, np.ndarray] = {}
        for operation in self.operations:
            for origin, x in zip(operation.origins, operation.operands, strict=True):
                if not origin.startswith("argument") or x.dtype.kind not in "iu" or not x.size or N % len(x):
                    continue
                if x.ndim == 1 and x.size > 1 and x.min() > 0 and x.max() <= S:
                    counts.setdefault(origin, np.arange(S) < x[:, None])
                elif x.ndim == 2 and x.shape[1] == S and len(np.unique(x)) > 2:
                    words.setdefault(origin, x != 0)
        if self._compare(list(counts.values()), cells):
            return True
        if not self._compare(list(words.values()), cells):
            return False
        if self.facts.pop("polarity", None) == "drop":
            says = "All words but those that are 0 are hidden."
            self.fail("mask", "mask_inverted", self.mask_line, says)
        return True

    def _misplaced(self, cells: np.ndarray) -> bool:
        """Whether there is a mask for each sample, and heads of a sample have those of others."""
        mine, N = self._samples(), len(cells)
        B = len(set(mine or ()))
        flat = cells.reshape(N, -1)
        if mine is None or B < 2 or N % B or N // B in (1, B) or len(np.unique(flat, axis=0)) != B:
            return False
        theirs = next((w for w in ([n % B for n in range(N)], [n * B // N for n in range(N)])
                       if all((flat[n] == flat[w.index(w[n])]).all() for n in range(N))), mine)  # fmt: skip
        if theirs == mine or len({(a, b) for a, b in zip(mine, theirs, strict=True)}) == B:
            return False
        self.fail("mask", "mask_fold_order", self.mask_line, "Samples get the masks of other samples.", mine, theirs)
        return True

    def _on_queries(self, padded: np.ndarray, cells: np.ndarray) -> bool:
        """Whether the rows of padded positions are hidden, and not their columns."""
        N = len(cells)
        per = N // len(padded) if N % len(padded) == 0 else 0
        return bool(per) and any(
            all(np.array_equal(cells[n], np.repeat(p[:, None], cells.shape[2], 1)) for n, p in rows)
            for flip in (padded, ~padded)
            for rows in ([(n, flip[n // per]) for n in range(N)], [(n, flip[n % len(padded)]) for n in range(N)])
        )

    def _samples(self) -> list[int] | None:
        """Of each row of the batch of the core, which sample its queries come from: heads are a later axis."""
        for at, axes in self._own_axes().values():
            return [int(b) for b in at[:, 0, axes[0]]]
        return None

    def _own_axes(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Places of the queries, (batch, queries, axes), and axes of which each row of the batch has a place."""
        assert self.core.place is not None
        found = {}
        for name, at in self.alignment.side(self.core, 0).items():
            rows = self._batched(at.reshape(-1, at.shape[-1])[self.core.place[:, 0]])
            axes = np.flatnonzero((np.ptp(rows, 1).max(0) < 0.4) & (np.ptp(rows[:, 0], 0) > 0.4))
            if np.isfinite(rows).all() and len(axes):
                found[name] = rows, axes
        return found

    def _own_keys(self) -> np.ndarray | None:
        """Which key, of rows × keys, is of the place that the query is of; None where they are of different things."""
        assert self.core.place is not None
        keys = self.alignment.side(self.core, 1)
        for name, at in self.alignment.side(self.core, 0).items():
            if name in keys:
                one, two = (x.reshape(-1, x.shape[-1])[self.core.place] for x in (at, keys[name]))
                return np.asarray((np.abs(one - two) < 0.4).all(-1))
        return None

    def _batched(self, x: np.ndarray) -> np.ndarray:
        """What each row of the weights has, (batch, queries, …)."""
        core = self.core
        labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
        order = [labels.index(a) for a in core.mix.batch + core.mix.rows]
        rows = int(np.prod([core.shape[labels.index(a)] for a in core.mix.rows]))
        whole = x.reshape(*core.shape, x.shape[-1])
        return whole.transpose([*order, whole.ndim - 1]).reshape(-1, rows, x.shape[-1])

    def _causal(self, cells: np.ndarray, masked: bool) -> None:
        N, T, S = cells.shape
        ahead = np.arange(S)[None] - np.arange(T)[:, None]
        if T < 2:
            if not masked and S > 2 and np.array_equal(cells, np.broadcast_to(ahead > 0, cells.shape)):
                says = "The one query sees the first key alone."
                self.fail("causal", "causal_top_left", self.mask_line, says, ahead > S - T, cells[0])
            return
        for n in range(N):
            if not cells[n].any() or cells[n].all():
                continue
            offset = next((o for o in range(-T, S + 1) if np.array_equal(cells[n], ahead > o)), None)
            if offset is not None:
                self.facts["causal"] = offset
                if offset == S - T or masked:
                    self.note("causal", "held", "a query sees no later key", self.mask_line)
                elif S == T or (abs(S - T) > 1 and abs(offset - S + T) == 1):
                    says = f"A query sees {'the next key' if offset > S - T else 'not its own position'}."
                    self.fail("causal", "causal_off_by_one", self.mask_line, says, ahead > S - T, cells[n])
                elif offset == 0:
                    own = self._own_keys()
                    wrong = own is not None and bool(own.any(1).all() and (self.hidden & own).any())
                    says = "A query does not see itself." if wrong else "The first query stands at the first key."
                    self.fail("causal", "causal_top_left", self.mask_line, says, kind="mistake" if wrong else None)
                return
            past = next((o for o in range(-T, S + 1) if np.array_equal(cells[n], ahead <= o)), None)
            if not masked and past is not None and T > 2:
                says = "The past is hidden, and not the future."
                self.fail("causal", "mask_inverted", self.mask_line, says, ahead > S - T, cells[n])
                return

    def _unused(self) -> Operation | None:
        """A result as large as the scores that nobody used, between scores and mixing."""
        core = self.core
        used = {s for op in self.operations for s in op.sources if s is not None}
        derived = {core.scores.number}
        for i in range(core.scores.number + 1, len(self.operations)):
            if derived & set(self.operations[i].sources):
                derived.add(i)
        for i in range(core.scores.number + 1, core.mix.number):
            op = self.operations[i]
            wanted = op.host.size == core.scores.result.size and op.host.dtype.kind == "f" and op.name not in VIEWS
            kept = any(op.host.shape == o.shape and near(op.host, o) for o in self.outputs)
            if i in derived and i not in used and wanted and op.name != "setitem" and not kept and self._hides(op):
                return op
        return None

    def _hides(self, operation: Operation) -> bool:
        """Whether an operation changed some cells of what it was given, and these to one value."""
        y = operation.host
        changed = [~np.isclose(x, y, rtol=1e-6, atol=1e-12, equal_nan=True)
                   for x in operation.operands if x.shape == y.shape and x.dtype.kind == "f"]  # fmt: skip
        return any(bool(cells.any() and not cells.all() and len(np.unique(y[cells])) == 1) for cells in changed)

    def _dropped(self) -> None:
        for i in self.core.path:
            op = self.operations[i]
            if op.detail.startswith("fused ") and not self.failed("dropout"):
                says = f"Dropout of {op.detail.removeprefix('fused ')} is active where nothing is trained."
                self.fail("dropout", "dropout_eval", op.line, says)

    def _shared(self) -> None:
        """Two of queries, keys and values have one projection where there is another, or all heads have one matrix."""
        named = [(name, one, self._projected(one)) for name, one in
                 (("queries", self.q), ("keys", self.k), ("values", self.v))]  # fmt: skip
        found = projections.shared(self.operations, [(name, one.source, made) for name, one, made in named], self.idle)
        matrices = [self._for_all_heads(one, made) for _, one, made in named] if self.sum is None else [None]
        if found is None and matrices[0] is not None and None not in matrices:
            found = matrices[0], "All heads are projected with one matrix."
        if found is not None:
            self.fail("projection", "shared_projection", self.operations[found[0]].line, found[1])

    def _for_all_heads(self, one: Origin, made: Product | None) -> int | None:
        """The product with one matrix of all heads, whose features lie behind one another in what is projected."""
        at = one.places()
        if made is None or at is None or made.columns == "" or made.batch:
            return None
        before = self._followed(made.queries, made.sources[0], made.left)
        whole, width = before.places(), made.width
        if whole is None or before.array.shape[-1] <= width or one.array.shape[:-1] != made.left.shape[:-1]:
            return None
        # Of each projected row, which piece of the features it has.
        piece = whole[-1][0, :, 0].astype(int) // width
        rows = np.ravel_multi_index([c[:, :, 0] for c in at[:-1]], one.array.shape[:-1])
        of_heads = piece[rows]
        return made.number if (of_heads == of_heads[:, :1]).all() and len(np.unique(of_heads)) > 1 else None

    def _paired(self) -> None:
        """Whether what belongs together was kept together: features of a position, key and value, query and output."""
        number = self.alignment.lies_behind(self.core)
        if number is not None:
            line = self.operations[self.alignment.line_before(number)].line
            says = "What is taken for the features of a position are some features of several positions."
            self.fail("positions", _UNKNOWN, line, says)
        queries, keys, values = self._streams()
        if self.intended.get("memory") and values and values == queries and not values & keys:
            source = self.v.source
            line = self.operations[self.core.mix.number if source is None else source].line
            says = "The values come from what the queries come from, and the keys from something else."
            self.fail("values", _UNKNOWN, line, says)
        if self.sum is None and self.alignment.strangers(self.core):
            line = self.operations[self.alignment.parted(self.core)].line
            self.fail("mixing", _UNKNOWN, line, "Keys are paired with the values of other positions.")
        if self.alignment.exchanged and not (self.failed("merge") or self.failed("positions")):
            line = self.operations[self.alignment.line_before(self.alignment.exchanged[0])].line
            self.fail("merge", _UNKNOWN, line, "What was mixed for a query is put at the place of another.")

    def _grouped(self) -> None:
        """Which key head each query head reads, where there are fewer."""
        core = self.core
        n, length, width = core.scores.keys.shape
        at = self.k.places()
        if at is None or not n or len(np.unique(self.k.form)) * 2 > n * length * width:
            return
        # The head is the axis that follows the batch row alone, beside that of the samples.
        mine = [c for c in at if constant_over(c) and len(np.unique(c)) > 1]
        if self.k.array.shape[-1] > width and constant_over(at[-1] // width):
            mine = [at[-1] // width]
        if len(mine) > 1:
            mine = [c for c in mine if c is not at[0]]
        if len(mine) != 1:
            return
        if not any((c == c[:1, :, :1]).all() and len(np.unique(c)) == length for c in at):
            # Each head of queries has as many keys as there are, and some of them twice.
            along = [c for c in at[:-1] if len(np.unique(c)) == length and (c == c[:, :, :1]).all()]
            line = self.operations[self.k.views[0]].line if self.k.views else None
            if any(len(np.unique(row)) < length for c in along for row in c[:, :, 0]):
                says = "A query head sees some keys twice and others never: they are repeated along the positions."
                self.fail("groups", "gqa_repeat_wrong_axis", self._repeats() or line, says)
            else:
                self.note("groups", "not tried", "where the keys' positions came from could not be followed")
            return
        heads = mine[0][:, 0, 0]
        G = len(np.unique(heads))
        samples = at[0][:, 0, 0] if constant_over(at[0]) and at[0] is not mine[0] else np.zeros(n, int)
        row = np.unique(heads[samples == samples[0]], return_inverse=True)[1].ravel()
        if len(row) % G or len(row) == G:
            return
        view = self.k.views[0] if self.k.views else core.scores.number
        line = self._repeats() or self.operations[view].line
        if np.array_equal(row, np.arange(len(row)) // (len(row) // G)):
            self.note("groups", "held", "head h reads key head h // (H/G)", line)
        elif np.array_equal(row, np.arange(len(row)) % G):
            says = "Query head h reads key head h mod G."
            self.fail("groups", "gqa_tile", line, says, np.arange(len(row)) // (len(row) // G), row)

    def _repeats(self) -> Line | None:
        """The line that repeats the keys."""
        several = (self.operations[n] for n in self.k.views)
        return next((op.line for op in several if op.operands and op.host.size > op.operands[0].size), None)

    def _returned(self) -> None:
        """What is returned beside the output: weights, scores in their place, or log-sum-exps."""
        core = self.core

        def like(x: np.ndarray, y: np.ndarray) -> bool:
            return x.size == y.size and np.allclose(np.sort(x, axis=None), np.sort(y, axis=None), rtol=1e-4, atol=1e-6)

        final = core.steps[-1][1]
        for array in self.outputs[1:]:
            if like(array, final):
                continue
            if any(like(array, y) for _, y in core.steps[:-1]) and np.isfinite(array).any() and self.phase != "raw":
                if not any(like(array, y) for y in (self.weights,) if y is not None):
                    self.fail("weights", "returns_scores", None, "Scores are returned in the place of weights.")
            elif array.size == len(final) and self.before is not None:
                with np.errstate(all="ignore"):
                    top = self.before.max(1)
                    lse = top + np.log(np.exp(self.before - top[:, None]).sum(1))
                if like(array, lse):
                    self.note("log-sum-exp", "held", "natural")
                elif like(array, lse / np.log(2)):
                    self.fail("log-sum-exp", "lse_base2", None, "The log-sum-exp is in base 2.", lse, array)

    def _merge(self) -> None:
        """What becomes of the mixed values: heads that a reshape alone merges."""
        core = self.core
        mixed = core.mix.output
        n, length, width = mixed.shape
        self.note("mixing", "held", "weights times values, summed over the keys", self.operations[core.mix.number].line)
        if n < 2 or length < 2:
            return
        same = {core.mix.number}
        for i in range(core.mix.number + 1, len(self.operations)):
            op = self.operations[i]
            if not (same & set(op.sources)) or op.host.size != mixed.size or op.name in PRODUCTS:
                continue
            same.add(i)
            heads = op.host.shape[-1] // width if op.host.ndim and op.host.shape[-1] % width == 0 else 0
            x = op.operands[0]
            if heads < 2 or x.shape[-1] == op.host.shape[-1] or length not in op.host.shape:
                continue
            if not np.allclose(np.sort(op.host.ravel()), np.sort(mixed.ravel()), rtol=1e-6, atol=1e-12):
                return
            if np.allclose(op.host.ravel(), mixed.ravel(), rtol=1e-6, atol=1e-12):
                right = mixed.reshape(-1, heads, length, width).swapaxes(1, 2)
                self.fail("merge", "merge_view", op.line, "A row of the output holds the heads of other positions.",
                          right.reshape(-1, heads * width)[:1], op.host.reshape(-1, heads * width)[:1])  # fmt: skip
            else:
                self._folded(i, width)
            return

    def _folded(self, number: int, width: int) -> None:
        """Whose heads a row of the output holds."""
        op = self.operations[number]
        for name, (_, axes) in self._own_axes().items():
            at = self.alignment.places[number].get(name)
            if at is None:
                continue
            rows = at.reshape(-1, at.shape[-2] // width, width, at.shape[-1])[:, :, 0]
            if not np.isfinite(rows).all():
                continue
            # What was never folded, such as heads of heads, cannot be unfolded.
            if len(self.core.mix.batch) == 1 and (np.ptp(rows, 1)[:, axes] > 0.4).any(0).all():
                says = "Heads are unfolded in another order than they were folded, so samples exchange them."
                self.fail("merge", "fold_batch_head_swap", op.line, says)
            else:
                self.note("merge", "held", "each position gets its own heads", op.line)
            return
        self.note("merge", "not tried", "where the heads came from could not be followed", op.line)

    def _whole(self) -> None:
        """The weights once more, from queries, keys, scale and mask, where nothing else was met on the way."""
        if {"bias", "term"} & set(self.facts):
            self.note("bias", "not tried", "whether what is added to the scores is what is meant is not known")
            return
        if any(f.step != "causal" for f in self.faults) or self.odd or self.weights is None:
            return
        core = self.core
        raw = core.steps[0][1]
        scores = raw * (self.total / (self.q.factor * self.k.factor))
        if self.hidden is not None:
            scores = np.where(self.hidden, -np.inf, scores)
        with np.errstate(all="ignore"):
            made = pipeline.softmax(scores, (1,))
        live = np.isfinite(made).all(1) & np.isfinite(self.weights).all(1)
        if not live.any():
            return
        if np.allclose(made[live], self.weights[live], rtol=1e-3, atol=1e-6):
            self.note("output", "held", "recomputed from its queries, keys, values, scale and mask")

    def _joined(self) -> None:
        """Blocks of keys, whose results are joined later: all together against one softmax of all scores."""
        hides = {"mask": "mask", "stability": "softmax"}
        self.faults = [f for f in self.faults if f.step not in hides]
        self.ledger = [e for e in self.ledger if e.step not in hides]
        core = self.core
        line, many = self.operations[core.mix.number].line, len(self.blocks) + 1
        parts = self._parts(self.blocks)
        if parts is None:
            self.note("output", "not tried", "blocks of keys whose scores could not be followed", line)
            return
        whole, keys = np.concatenate([s for s, _ in parts], axis=1), np.concatenate([v for _, v in parts], axis=1)
        made = _mixed(whole, keys)
        if self._appears(made, core.mix.number):
            self.note("softmax", "held", f"of {many} blocks of keys together", line)
            self.note("output", "held", "softmax of all scores times the values, recomputed", line)
        elif self._pieces(parts):
            self.note("output", "not tried", "blocks of keys, one of which was not followed", line)
        elif not self._in_base_2(parts):
            says = f"What {many} blocks of keys give together is not softmax of all their scores times the values."
            self.fail("softmax", _UNKNOWN, line, says, made)

    def _pieces(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Whether there are keys beside these blocks, in one with so few that nothing of attention was seen in it."""
        missing = sum(values.shape[1] for _, values in parts) < self._keys()
        self.facts["pieces"] = self.facts.get("pieces") or missing
        return missing

    def _keys(self) -> int:
        """How many keys there are in what those of a block were taken from; 0 where that was not followed."""
        at = self.k.places()
        along = (
            []
            if at is None
            else [axis for axis, c in enumerate(at) if (c != c[:, :1]).any() and (c == c[:, :, :1]).all()]
        )
        return int(self.k.array.shape[along[0]]) if len(along) == 1 else 0

    def _parts(self, others: Sequence[Core]) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Masked scores, rows × keys, and values of this core and of others for the same queries."""
        found = []
        for part in (self.core, *others):
            judge_ = self if part is self.core else _Judge(part, self.data, self.outputs, None, {})
            if judge_ is not self:
                judge_.q, judge_.k = self.q, self.k
                judge_._walk()
            raw = part.steps[0][1] if part.place is not None else None
            if judge_.before is None and raw is not None and raw.shape[1] == 1:
                # Of one key no step can be told.
                judge_.before = raw * (self.total / (self.q.factor * self.k.factor))
            if judge_.before is None or part.place is None or len(part.steps[0][1]) != len(self.core.steps[0][1]):
                return None
            hidden = judge_.hidden if judge_.hidden is not None else np.zeros_like(judge_.before, bool)
            mix = part.mix
            values = mix.form(mix.right, mix.labels[1], mix.columns, mix.summed).swapaxes(1, 2)
            found.append((np.where(hidden, -np.inf, judge_.before), values))
        return found

    def _in_base_2(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Whether the results of several are merged by log-sum-exps of which one half is in base 2."""
        with np.errstate(all="ignore"):
            logs = np.stack([np.log(np.exp(s).sum(1)) for s, _ in parts], 1)
        outs = np.stack([_mixed(s, v).reshape(len(s), -1) for s, v in parts], 1)
        shape = (len(parts[0][1]), -1, parts[0][1].shape[2])
        if self._appears((pipeline.softmax(logs, (1,))[..., None] * outs).sum(1).reshape(shape), self.core.mix.number):
            return False
        for factor in (np.log(2), 1 / np.log(2)):
            made = (pipeline.softmax(factor * logs, (1,))[..., None] * outs).sum(1)
            if self._appears(made.reshape(shape), self.core.mix.number):
                powers = (op.line for op in self.operations[self.core.mix.number :] if op.name == "exp2")
                line = next(powers, self.operations[self.core.mix.number].line)
                self.fail("log-sum-exp", "lse_base2", line, "Log-sum-exps of base 2 and e are merged with each other.")
                return True
        return False

    def _appears(self, made: np.ndarray, after: int) -> bool:
        """Whether numbers, in whatever order, are what a later operation gave, or rows of what was returned."""
        want = np.sort(np.abs(made).ravel())
        several = [op.host for op in self.operations[after + 1 :]] + list(self.outputs)
        for x in several:
            if x.size == made.size and np.allclose(np.sort(np.abs(x).ravel()), want, rtol=1e-4, atol=1e-9):
                return True
            rows = x.reshape(-1, x.shape[-1]) if x.ndim else x
            if x.size > made.size and x.shape[-1:] == made.shape[-1:]:
                near_ = (np.abs(rows[:, None] - made.reshape(-1, made.shape[-1])) < 1e-6).all(-1).any(0)
                if near_.all():
                    return True
        return False

    def _lost(self) -> None:
        """Scores that come in blocks, or that were lost on the way to the weights: the whole alone can be judged."""
        core = self.core
        q, keys, values = core.scores.queries, core.scores.keys, self.v.form
        blocks = [core]
        line = self.operations[core.scores.number].line
        for number in range(core.scores.number + 1, len(self.operations)):
            op = self.operations[number]
            if op.line == line and op.name == self.operations[core.scores.number].name:
                again = product(self.operations, number)
                if again is not None and again.queries.shape == q.shape and near(again.queries, q):
                    keys = np.concatenate([keys, again.keys], axis=1) if keys.shape[0] == again.keys.shape[0] else keys
        del blocks
        if values.shape[0] == keys.shape[0] and values.shape[1] == keys.shape[1]:
            for factor in (core.scores.width**-0.5, 1.0):
                with np.errstate(all="ignore"):
                    made = pipeline.softmax(q @ keys.swapaxes(1, 2) * factor, (2,)) @ values
                want = np.sort(np.abs(made).ravel())
                for op in self.operations[core.mix.number :]:
                    if op.host.size == made.size and np.allclose(np.sort(np.abs(op.host).ravel()), want, rtol=1e-4):
                        self.note("output", "held", "softmax of all scores times the values, recomputed", op.line)
                        return
        self.note("scores", "not tried", "the way from the scores to the weights could not be followed", line)


def _mixed(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values mixed by the softmax of scores, rows × keys."""
    return np.asarray(pipeline.softmax(scores, (1,)).reshape(len(values), -1, scores.shape[1]) @ values)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))
