"""From scores to weights: each step told by its numbers, and what of it is no step of attention."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import comb, log
from typing import Any, NamedTuple

import numpy as np

from overt.check.steps import distances, pipeline
from overt.check.steps.changes import RAISED, decays, levelled, raised_cells, shared, sigmoid, whole_numbers
from overt.check.steps.factors import Factored
from overt.check.steps.judged import FACTORS, SUMS, UNKNOWN
from overt.check.steps.origins import PRODUCTS
from overt.check.steps.pipeline import Kind, classify, constant, near
from overt.check.text.lines import scaled_by_one
from overt.recorder.edges import EDGES
from overt.recorder.flow import close, tempered
from overt.recorder.operations import Line, Operation
from overt.recorder.products import made_of

# The logarithm of how many choices of hidden cells there are from where on one is none of chance.
_BY_CHANCE = log(1e6)
_ROUNDS = {"round", "round_", "rint", "around"}
# A share of the largest number by which rounding moves one.
_ROUNDED = 0.1


class Step(NamedTuple):
    """One step on the way: what it makes y of x, rows × keys."""

    operation: Operation
    number: int
    kind: Kind
    x: np.ndarray
    y: np.ndarray

    @property
    def line(self) -> Line | None:
        return self.operation.line


class Walk(Factored):
    """The way from the scores of one attention to its weights."""

    def _walk(self) -> None:
        core = self.core
        self.total = self.q.factor * self.k.factor
        self.scale_lines = [*self.q.lines, *self.k.lines]
        factors = (n for one in (self.q, self.k) for n in one.views if self.operations[n].name in FACTORS)
        self.learned |= any(self._of_parameters(n) for n in factors)
        # the last factor, and the last one before tanh, with the places of their lines
        self.factor: tuple[float, int] | None = None
        self.capped: tuple[float, int] | None = None
        self.phase = "raw"
        # whether weights were changed that are divided by their sums later on
        self.changed = False
        # what of each row, or of all, or what fixed number was subtracted, and where
        self.lowered: tuple[str, Line | None] = "", None
        # what hides weights where they may be divided by their sums yet, with what was hidden before; what is unknown
        self.tentative: list[tuple[Step, np.ndarray | None]] = []
        self.strange: list[Step] = []
        scores_line = self.operations[core.scores.number].line
        self.note("scores", "held", "a product of queries and keys" if core.two else "a score", scores_line)
        for at, ((_, x), (number, y)) in enumerate(pairwise(core.steps), 1):
            if number is not None and not self._goes_on(number, x, y, core.steps[at:]):
                break
        made = made_of(self.operations, core.scores.sources[1])
        coded = whole_numbers(core.scores.keys) and any(self.operations[n].name in _ROUNDS for n in made)
        if coded and not any(entry.step == "keys" for entry in self.ledger):
            says = "Keys were rounded to whole numbers, and are not multiplied by what they were divided by."
            self.fail("scores", UNKNOWN, scores_line, says)
        measured = tempered(core.steps[0][1], core.steps[-1][1]) if self.strange or self.phase == "raw" else None
        if measured is not None:
            # However it was come by, it is a softmax of the scores over some of the keys.
            self.strange.clear()
            self.odd.clear()
            self._measured(*measured)
            self.phase, self.fitted = "prob", True
        if self.strange and self.weights is not None and levelled(self.weights, core.steps[-1][1]):
            # Nobody does that by mistake.
            says = "each weight is drawn towards that of a mean over all keys that are seen"
            self.note("weights", "held", says, self.strange[-1].line)
            self.strange.clear()
        several = any(one.operation.name in SUMS and self._dependent(one.operation) for one in self.strange)
        for step in self.strange:
            self._odd(step, several)
        for step, _ in self.tentative:
            says = "The weights are masked after the softmax, so hidden keys still count in the sum."
            # Perhaps the output is divided by the sums later on.
            if not self._divided(np.nansum(core.steps[-1][1], 1)):
                self.fail("mask", "mask_after_softmax", step.line, says, step.x, step.y)

    def _goes_on(self, number: int, x: np.ndarray, y: np.ndarray, rest: Sequence[Any]) -> bool:
        """What one step is; whether those after it are to be told.  rest: it and these."""
        core, operation, raw = self.core, self.operations[number], self.phase == "raw"
        line, final = operation.line, rest[-1][1]
        if raw and operation.name in ("sub", "subtract", "rsub") and self._second(number):
            # What is subtracted changes its sign, and something is added to that.
            x, self.total = -x, -self.total
            self.before = None if self.before is None else -self.before
        kind = classify(x, y, operation, self._dependent(operation))
        if core.sink and raw and self._normalises(x, y):
            kind = Kind("softmax")
        if kind.detail == "rounded" or pipeline.few_bits(y[np.isfinite(y) & (y != np.round(y))]):
            self.rounded = self.rounded or line
        if self.rounded and raw and close(pipeline.softmax(x, (1,)), final, 2**-5, 2**-8):
            # What is done in few digits is no step by itself.
            self._weighed(x, final, line)
            return False
        if kind.name == "same":
            # What is multiplied by 1 is scaled by whoever gives the factor, unless it is said to be one over a root.
            said = self.intended.get("by root") and line is not None and scaled_by_one(line.file, line.number)
            self.learned |= raw and operation.name in FACTORS and not said
            if raw and operation.name in SUMS and self._largest(x, y):
                # The largest of each row is 0 already.
                self.lowered = "row", line
            return True
        ends = rest if raw and (x > pipeline.LOW).any() else []
        if any(near(sigmoid(sign * x), end) for sign in (1, -1) for _, end in ends):
            self.odd.append("sigmoid")
            self.note("softmax", "held", "there is none: each weight is the sigmoid of its score", line)
            return False
        cosines = raw and kind.name in ("rowscale", "unknown")
        if cosines and (self._cosines(core.steps[0][1], y) or self._cosines(x, y) or self._on_a_sphere(x, y)):
            self.learned, self.before = True, None
            return True
        if kind.name in ("term", "bias", "unknown") and self._largest(x, y):
            kind = Kind("shift", detail="other")
        if kind.name == "zero" and raw and ((x < 0) == kind.cells).all():
            kind = Kind("function", detail="relu")
        if raw and kind.name in ("bias", "term") and (raised := raised_cells(x, y)).any():
            says = f"To some scores {(y - x)[raised].max():.4g} is added, beside which no other one counts."
            self.fail("mask", "mask_sign_inf", line, says, x, y)
            self._weighed(None, final, self.softmax_line)
            return False
        return self._told(Step(operation, number, kind, x, y), rest)

    def _told(self, step: Step, rest: Sequence[Any]) -> bool:
        """What a step of a kind comes to; whether those after it are to be told."""
        kind, x, y, raw = step.kind, step.x, step.y, self.phase == "raw"
        if self.phase == "prob" and shared(x, y):
            self.shared, whole = True, close(x, np.round(x), 0, 1e-6)
            if whole:
                # Each key was given to one query.
                self.strange.clear()
            if whole or kind.name != "normalise":
                return True
        if (
            raw
            and kind.name in ("scale", "rowscale", "normalise")
            and np.allclose(y.sum(1), 1, rtol=1e-6)
            and self._normalises(x, y)
        ):
            # One row, divided by its sum.
            self._weighed(x, y, step.line)
            return True
        if (
            self.phase == "exp"
            and kind.name == "unknown"
            and step.operation.name in FACTORS
            and rest[1:]
            and self._again
        ):
            self.odd.append(step.operation.name)
        if self.phase == "exp" and kind.name not in ("zero", "mask"):
            self.phase, self.weights, self.softmax_line, self.normaliser = "prob", y, step.line, step.number
            return True
        match kind.name:
            case "mask" | "mask_sign_inf":
                return self._masked(step)
            case "zero":
                self._zeroed(step, rest)
            case "scale" if self.phase == "prob" and self.tentative and kind.number > 1 + 1e-6:
                dropped, self.hidden = self.tentative.pop()
                self._drops(dropped._replace(y=y), kind.number)
            case "fill" | "weak" if raw:
                self._hardly_hidden(step)
            case "add01" if raw:
                self.fail("mask", "mask_bool_as_float", step.line, "0 and 1 are added to the scores.", x, y)
                self.before = None
            case "scale" if raw:
                self.total *= kind.number
                self.before = None if self.before is None else self.before * kind.number
                if self.capped and abs(self.capped[0] * kind.number - 1) < 1e-6:
                    # What caps multiplies by what it divided by, and neither is the scale.
                    del self.scale_lines[self.capped[1]]
                    self.capped = None
                else:
                    self.factor = kind.number, len(self.scale_lines)
                    self.scale_lines.append(step.line)
                self.learned = self.learned or self._of_parameters(step.number) or self._tempered(step.number)
            case "rowscale" if raw:
                # A factor for each head, or for each query.
                self.learned, self.before = True, None
            case "tanh":
                self.facts["capped"] = True
                self.bent, self.capped = (self.total, step.line), self.factor
                if self.hidden is not None:
                    self.fail("softcap", "softcap_after_mask", step.line, "Hidden scores are capped too.", x, y)
            case "shift":
                self._lower(step)
                # Beside other keys what all of these have more or less counts.
                self.before = None if self.core.sink else self.before
            case "exp" | "exp2":
                self._exponential(step)
                self.phase, self.weights, self.softmax_line = "exp", y, step.line
            case "softmax":
                self._weighed(x if self.before is None else self.before, y, step.line)
            case "normalise" if self.changed:
                # The softmax is judged as it was before.
                self.tentative.clear()
            case "normalise":
                self.tentative.clear()
                self.phase, self.weights, self.normaliser = "prob", y, step.number
                self.softmax_line = self.softmax_line or step.line
            case "bias" | "term" if raw:
                self._biased(step)
            case _:
                self._unfamiliar(step)
        return True

    def _weighed(self, before: np.ndarray | None, weights: np.ndarray, line: Line | None) -> None:
        """Weights are there, made of what was before."""
        self.phase, self.before, self.weights, self.softmax_line = "prob", before, weights, line

    def _masked(self, step: Step) -> bool:
        """Scores, or weights, are hidden; whether steps after it are to be told."""
        cells, before = step.kind.cells, self.hidden
        self._hide(cells, step.number)
        self._filled(step.number, step.x[cells], step.y[cells])
        # What is turned round later is hidden in the end.
        if step.kind.name == "mask_sign_inf" and not (self.core.steps[-1][1][cells] == 0).all():
            self.fail("mask", "mask_sign_inf", step.line, "Hidden scores become +inf.", -np.inf, step.y[cells])
            # What follows is NaN.
            return False
        if self.phase == "prob":
            self.tentative.append((step, before))
        return True

    def _zeroed(self, step: Step, rest: Sequence[Any]) -> None:
        """Some scores, or weights, become 0."""
        cells, last = step.kind.cells, self.strange[-1].kind if self.strange else None
        # What is dropped later may be made up for first.
        times = step.kind.number * (last.number if last and last.name == "scale" else 1.0)
        if self.phase == "prob" and abs(times - 1) > 1e-6:
            self._drops(step, times)
            self.strange = [one for one in self.strange if one.kind.name != "scale"]
            return
        whole = (cells.any(1) == cells.all(1)).all()
        if self.phase == "prob" and whole:
            # A query that attends to nothing changes no other weight.
            return
        if self.phase == "prob":
            self.tentative.append((step, self.hidden))
        # What is filled after that, or has no weight in the end, was cleared for it; and of a query all of whose scores
        # are 0, as others' are not, no key is hidden.
        elif self.phase == "raw" and not (
            (whole and not cells.all())
            or any((z[cells] < pipeline.LOW).all() for _, z in rest)
            or (rest[-1][1][cells] == 0).all()
        ):
            says = "Hidden scores become 0, and exp(0) is 1."
            self.fail("mask", "mask_times_scores", step.line, says, -np.inf, step.y[cells])
        self._hide(cells, step.number)

    def _drops(self, step: Step, times: float) -> None:
        """Some weights are dropped at random, and the others made up for it."""
        says = f"Weights are dropped, and the rest multiplied by {times:.3g}, where nothing is trained."
        self.fail("dropout", "dropout_eval", step.line, says, step.x, step.y)

    def _hardly_hidden(self, step: Step) -> None:
        """Some scores become one number, or lose some, that is not low enough to hide them."""
        kind, filled = step.kind, step.kind.name == "fill"
        says = f"Hidden scores {'become' if filled else 'lose only'} {abs(kind.number):.4g}."
        small = filled and abs(kind.number) < 1e-3
        name = "mask_times_scores" if small else "mask_fill_too_small"
        name = "mask_sign_inf" if filled and kind.number > RAISED else name
        self.fail("mask", name, step.line, says, -np.inf, step.y[kind.cells])
        self._hide(kind.cells, step.number)

    def _lower(self, step: Step) -> None:
        """One number is subtracted from all scores, or from those of a row."""
        x, y, line = step.x, step.y, step.line
        if np.allclose(y.max(1), 2 * x.max(1), rtol=1e-6) and np.isfinite(y.max(1)).all():
            self.fail("stability", "no_max", line, "The maximum of a row is added to its scores, and not subtracted.")
            self.lowered = "row", line
            return
        self.shifted = line if step.kind.detail == "other" else None
        # Where all rows have one maximum, it may be each one's own.
        by = "row" if constant(y.max(axis=1), tolerance=1e-9) else step.kind.detail
        fixed = by == "all" and not self._dependent(step.operation) and abs(y.max()) > 1e-6 * np.abs(x).max()
        self.lowered = "fixed" if fixed else by, line
        self.before = x if self.before is None else self.before

    def _biased(self, step: Step) -> None:
        """Something is added to the scores."""
        kind, line = step.kind, step.line
        if kind.cells.any():
            self._hide(kind.cells, step.number)
        self.facts[kind.name] = line.number if line else None
        path = {*self.core.path, self.core.scores.number}
        others = [s for s in step.operation.sources if s is not None and s not in path]
        queries, keys, _ = self.streams()
        self.several |= kind.name == "term" and any(self.reach[s] & (queries | keys) for s in others)
        made = [self.operations[s].line for s in others]
        self.facts[f"{kind.name} made"] = (made[0] or line).number if made and line else self.facts[kind.name]
        self.before = None
        learned = self._of_parameters(step.number) and not distances.linear(self.core, step.x, step.y)
        self.facts["learned bias"] = self.facts.get("learned bias") or learned

    def _unfamiliar(self, step: Step) -> None:
        """What a step of no kind that attention has comes to."""
        operation, name, raw, prob = step.operation, step.kind.name, self.phase == "raw", self.phase == "prob"
        free = name == "unknown" and (raw or prob)
        if prob and self.core.normal and (name == "scale" or operation.name in ("pow", "power")):
            # A share of weights, or a power, that sums to 1 again by what comes later (Graves et al. 2014, 3.3).
            self.note("mixing", "not tried", f"the weights that are mixed are made by {operation.name}", step.line)
            return
        if raw and self._normalises(step.x, step.y):
            self._weighed(step.x, step.y, step.line)
        elif (raw or prob) and operation.name in FACTORS and self._unrounded(step.x, step.y):
            self.before = None if raw else self.before
            what = "keys" if raw else "values"
            self.note(what, "held", "whole numbers, multiplied by what they were divided by to be rounded", step.line)
        elif prob and self._again and (operation.name in FACTORS or (name == "fill" and step.kind.number > 0)):
            # By what the weights were before (Zhang et al. 2018, forward attention), or no smaller than a floor.
            self.changed = True
            says = f"the weights are changed by {operation.name}, and divided by their sums again"
            self.note("mixing", "not tried", says, step.line)
        elif prob and operation.name in SUMS and self._late(step):
            says = "What is said to be added to the scores is added to the weights."
            self.odd.append(operation.name)
            self.fail("bias", UNKNOWN, step.line, says, step.x, step.y)
        elif free and (self._free(step.number) or (prob and self._by_key(step.x, step.y))):
            # A learned or a given number is nobody's mistake.
            self.learned, self.before = True, None
            self.odd.append(operation.name)
            says = "the scores are multiplied by numbers that are learned or given"
            self.note("scores", "not tried", says, step.line)
        elif (
            prob
            and self._of_parameters(step.number)
            and (operation.name in FACTORS or self.core.normal or _moves(step))
        ):
            # A learned gate between what was found and weights of places (d'Ascoli et al. 2021).
            self.odd.append(operation.name)
            says = "the weights are multiplied by, or added to, what is learned"
            self.note("mixing", "not tried", says, step.line)
        elif raw and name in ("unknown", "function") and "sub" in self._scored.name:
            self.note("scores", "held", "a kernel of differences (Nadaraya 1964, Watson 1964)", step.line)
        elif prob or name in ("unknown", "function"):
            self.strange.append(step)

    def _late(self, step: Step) -> bool:
        """Whether something is added to weights that is said to be added to scores, to which nothing was."""
        path = {*self.core.path, self.core.scores.number}
        others = [s for s in step.operation.sources if s not in path]
        own = any(made_of(self.operations, s) & path for s in others)
        return bool(self.intended.get("adds to scores")) and not own and not {"bias", "term"} & set(self.facts)

    def _measured(self, factor: float, kept: np.ndarray) -> None:
        """Scale and hidden cells, read off the weights."""
        raw, weights = self.core.steps[0][1], self.core.steps[-1][1]
        self.total = self.q.factor * self.k.factor * factor
        self.weights, self.before = weights, np.where(kept, factor * raw, -np.inf)
        number = self.core.steps[-1][0]
        self.softmax_line = self.operations[self.core.mix.number if number is None else number].line
        if not kept.all():
            self.hidden = ~kept
            # Scores of the keys that are kept, and of those that are not.
            inside = np.where(kept, factor * raw, -np.inf).max(1)
            outside = np.where(kept, np.inf, factor * raw).min(1)
            # Of a row that is hidden whole nothing is seen, and of a few rows it may be so by chance.
            some = ~kept.all(1) & kept.any(1)
            ways = sum(log(comb(kept.shape[1], int(n))) for n in kept[some].sum(1))
            if ways > _BY_CHANCE and (inside < outside)[some].all():
                says = "The keys with the largest scores are hidden."
                self.fail("mask", UNKNOWN, self.mask_line, says)

    @property
    def _again(self) -> bool:
        """Whether the weights that are mixed sum to 1 over the keys, whatever changed them on the way."""
        return bool(set(self.core.normal) & set(self.core.key_axes))

    @property
    def _scored(self) -> Operation:
        return self.operations[self.core.scores.number]

    def _second(self, number: int) -> bool:
        """Whether the scores are what is subtracted."""
        path = {*self.core.path, self.core.scores.number}
        sources = self.operations[number].sources
        return len(sources) == 2 and sources[1] in path and sources[0] not in path

    def _cosines(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether scores x were divided by the norms of their queries and keys."""
        queries, keys = (np.linalg.norm(one.form, axis=2) for one in (self.q, self.k))
        norms = self._laid(queries[:, :, None] * keys[:, None])
        with np.errstate(all="ignore"):
            return norms is not None and constant(y * norms / x, tolerance=1e-4)

    def _on_a_sphere(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether scores were divided by their norms along an axis, such as that of the queries (Lee et al. 2018)."""
        shape = (*self.core.shape, x.shape[1])
        one, two = x.reshape(shape), y.reshape(shape)
        for axis in (axis for axis, n in enumerate(shape) if n > 2):
            with np.errstate(all="ignore"):
                norms = np.linalg.norm(one, axis=axis, keepdims=True)
                normed = one / np.where(norms > 0, norms, 1)
            if near(two, normed):
                return True
        return False

    def _unrounded(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether keys, or values, are whole numbers, and a factor of each makes them, nearly, what was rounded."""
        scores, mix, place = self.core.scores, self.core.mix, self.core.place
        with np.errstate(all="ignore"):
            shares = np.where(x != 0, y / x, np.nan)
        if self.phase == "prob":
            rows, source = mix.form(mix.right, mix.labels[1], mix.columns, mix.summed).swapaxes(1, 2), mix.sources[1]
            shares = self._batched(shares)
        else:
            rows, source = scores.keys, scores.sources[1]
            flat = np.full(scores.result.size, np.nan)
            flat[... if place is None else place.ravel()] = shares.ravel()
            shares = flat.reshape(scores.result.shape)
            shares = scores.form(shares, scores.labels[2], scores.rows, scores.columns)
        if not whole_numbers(rows) or not constant(shares, 1, 1e-4):
            return False
        made = np.sort(rows * np.fmax.reduce(shares, axis=1)[:, :, None], axis=None)
        rounded = (self.operations[n] for n in made_of(self.operations, source))
        before = (z for op in rounded for z in op.operands if z.dtype.kind == "f" and z.size == made.size)
        return any(np.abs(np.sort(z, axis=None) - made).max() <= _ROUNDED * np.abs(z).max() for z in before)

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
        sums = y.sum(1, keepdims=True)
        beside = bool(self.core.sink and ((sums > 0) & (sums < 1 + 1e-5)).all())
        # What is missing is the share of a sink.
        mistake, known = pipeline.softmax_mistake(self.core, x, y / sums if beside else y)
        return known and (mistake is not None or beside or bool(self.core.normal))

    def _hide(self, cells: np.ndarray, number: int) -> None:
        self.hidden = cells if self.hidden is None else self.hidden | cells
        if self.before is not None and self.weights is None:
            self.before = np.where(cells, -np.inf, self.before)
        self.hiding.append(number)
        if (cells.sum(1) == 1).all():
            # Of every query one key, such as its own.
            self.facts["one hidden"] = True

    def _filled(self, number: int, x: np.ndarray, y: np.ndarray) -> None:
        """What hidden scores become: a number that larger scores outdo, unless somebody gave it."""
        operation = self.operations[number]
        fill = float((y if constant(y) else y - x).max())
        if not -3e4 < fill < pipeline.LOW or operation.line is None:
            return
        if not any(o.startswith("argument") and x.dtype.kind == "f" and (x < pipeline.LOW).any()
                   for one in self.operations for o, x in zip(one.origins, one.operands, strict=True)):  # fmt: skip
            self.facts["fill"] = {"line": operation.line.number, "file": operation.line.file, "expected": ""}

    def _exponential(self, step: Step) -> None:
        by, at = self.lowered
        self.exponents = step.x
        if self.before is None:
            self.before = step.x
        if step.kind.name == "exp2":
            self.facts["base 2"] = True
            self.total *= float(np.log(2))
            self.before = self.before * np.log(2)
        self.exponential, bounded = True, "capped" in self.facts or self._unit()
        if by == "fixed":
            says = "a fixed number is subtracted, above which no score may come"
            self.note("stability", "not tried", says, step.line)
        elif not by and not bounded:
            self.fail("stability", "no_max", step.line, "exp is taken without subtracting the maximum of the row.")
        elif by and not bounded and np.allclose(step.x.min(1), 0, atol=1e-9) and step.x.max() > 0:
            self.fail("stability", "no_max", at, "The smallest of a row is subtracted, and not the largest.")
        elif by == "all" and step.x.shape[0] > 1 and not bounded and not self._shared_out(step.y):
            # The softmax of a graph's nodes is a sum over edges, and a maximum for each node is much more work.
            rare = "risk" if any(op.detail == EDGES for op in self.operations) else None
            self.fail("stability", "global_max", at, "The maximum of all rows is subtracted from each.", kind=rare)
        else:
            self.note("stability", "held", "the maximum is subtracted first", step.line)

    def _shared_out(self, exponentials: np.ndarray) -> bool:
        """Whether the exponentials of all rows are added up together: what is one row to its author has one maximum."""
        whole = exponentials.sum()
        return any(op.host.size == 1 and np.isclose(float(op.host.ravel()[0]), whole) for op in self.operations
                   if op.name == "sum")  # fmt: skip

    def _odd(self, step: Step, several: bool) -> None:
        """several: whether the weights of more than one attention are put together."""
        operation = step.operation
        self.odd.append(operation.name)
        linear = operation.name in PRODUCTS or operation.name.startswith("conv")
        # Without a softmax, fixed numbers may weigh the scores, as the decay of a retention does (Sun et al. 2023), and
        # so may what decays with every position by what that says (Yang et al. 2024, gated linear attention).
        factor = self.phase == "raw" and operation.name in FACTORS and not self.core.normal
        if factor and decays(step.x, step.y):
            says = "each position in between takes its share of a score, and what comes later has none"
            self.note("decay", "held", says, step.line)
            self.note("mixing", "not tried", "a decay stands where a softmax would", step.line)
            return
        linear |= self.phase == "raw" and operation.name in FACTORS and not self._dependent(operation)
        # What has no value, such as a power of a negative number, was given what is not meant.
        beyond = np.isnan(operation.host).any() and all(np.isfinite(x).all() for x in operation.operands)
        if step.kind.name == "function" or linear or several or beyond:
            self.note("scores", "not tried", f"{operation.name} is no step of plain attention", step.line)
        else:
            says = f"{operation.name} makes of the scores what no step of attention does."
            self.fail("scores", UNKNOWN, step.line, says, step.x, step.y)


def _moves(step: Step) -> bool:
    """Whether something is added to weights that sum to 1 nevertheless."""
    sums = step.y.sum(1)
    return step.operation.name in SUMS and near(sums, np.ones(sums.shape))
