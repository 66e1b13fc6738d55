"""Blocks of keys that are joined later, and scores that were lost on the way: the whole alone can be judged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from overt.check.steps import pipeline
from overt.check.steps.judged import UNKNOWN
from overt.check.steps.mixing import SINKS, Mixing
from overt.check.steps.origins import places
from overt.check.steps.pipeline import near, permuted
from overt.recorder.core import Core
from overt.recorder.flow import GATHERS, VIEWS, tempered
from overt.recorder.operations import Line
from overt.recorder.products import product

# What chooses some of several keys.
_CHOOSES = {"topk", "sort", "gather", "take_along_axis", "take_along_dim"}
# What leaves the base of a log-sum-exp as it is.
_KEEPS = VIEWS | GATHERS | {"sub", "subtract", "isub", "rsub", "maximum", "minimum", "max", "amax", "where"}
# Columns that may lie beside the scores, and axes of scores whose order is tried.
_BESIDE, _AXES = 4, 6


class Blocks(Mixing):
    """The blocks of keys of one attention."""

    def _joined(self) -> None:
        """Blocks of keys, whose results are joined later: all together against one softmax of all scores."""
        self.forget("mask", "stability")
        core = self.core
        line, many = self.operations[core.mix.number].line, len(self.blocks) + 1
        self.facts["blocks"] = many
        parts = self._parts(self.blocks)
        if parts is None:
            self.note("output", "not tried", "blocks of keys whose scores could not be followed", line)
            return
        whole, keys = np.concatenate([s for s, _ in parts], axis=1), np.concatenate([v for _, v in parts], axis=1)
        made = _mixed(whole, keys)
        blind = np.isneginf(whole).all(1)
        if blind.any():
            # Of rows that see nothing, nothing is said.
            made = made.reshape(-1, made.shape[-1])[~blind]
        if self._appears(made, core.mix.number):
            self.note("softmax", "held", f"of {many} blocks of keys together", line)
            self.note("output", "held", "softmax of all scores times the values, recomputed", line)
            if not self._pieces(parts):
                self._hidden_in_all(whole, keys)
        elif self._pieces(parts):
            self.note("output", "not tried", "blocks of keys, one of which was not followed", line)
        elif self._with_sink(whole, keys):
            self.note("softmax", "held", f"of {many} blocks of keys together, and of one more that has no value", line)
        elif self._in_base_2(parts) or self._powers():
            self._hidden_in_all(whole, keys)
        else:
            says = f"What {many} blocks of keys give together is not softmax of all their scores times the values."
            # The first of them, which is joined to nothing, may have a line of its own.
            last = self.operations[self.blocks[-1].mix.number].line
            self.fail("softmax", UNKNOWN, last, says, made)

    def _hidden_in_all(self, scores: np.ndarray, values: np.ndarray) -> None:
        """What blocks hide together.  scores: rows × keys; values: (samples, keys, width)."""
        cells = np.isneginf(scores).reshape(len(values), -1, scores.shape[1])
        # Values of zeros that nobody sees fill up the last block.
        idle = np.asarray(cells.all((0, 1)) & ~values.any((0, 2)))
        cells = cells[..., : len(idle) - int(idle[::-1].argmin())]
        if cells.any():
            self._hidden_as_said(cells)

    def _with_sink(self, whole: np.ndarray, values: np.ndarray) -> bool:
        """Whether each head has one more logit, of what some array holds, that takes weight from all keys: a sink."""
        # Of a row that sees nothing, all weight is the sink's.
        made = np.nan_to_num(_mixed(whole, values))
        top = whole.max(1, keepdims=True)
        with np.errstate(all="ignore"):
            logs = (top[:, 0] + np.log(np.exp(whole - top).sum(1))).reshape(len(made), -1, 1)
        held = [x.ravel() for op in self.operations for x in op.operands if x.dtype.kind == "f" and x.size <= SINKS]
        alike = {tuple(x) for x in held if x.size > 1 and len(made) % x.size == 0}
        sinks = (np.tile(x, len(made) // len(x))[:, None, None] for x in alike)
        return any(self._appears(made / (1 + np.exp(one - logs)), self.core.mix.number) for one in sinks)

    def _pieces(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Whether there are keys beside these blocks, in one with so few that nothing of attention was seen in it."""
        missing = sum(values.shape[1] for _, values in parts) < self._keys()
        self.facts["pieces"] = self.facts.get("pieces") or missing
        return missing

    def _keys(self) -> int:
        """How many keys there are in what those of a block were taken from; 0 where that was not followed."""
        at = self.k.places
        along = (
            []
            if at is None
            else [axis for axis, c in enumerate(at) if (c != c[:, :1]).any() and (c == c[:, :, :1]).all()]
        )
        return int(self.k.array.shape[along[0]]) if len(along) == 1 else 0

    def _parts(self, others: Sequence[Core]) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Masked scores, rows by samples × keys, and values, of this core and of others for the same queries."""
        found = []
        for part in (self.core, *others):
            judge_ = self if part is self.core else type(self)(part, self.data, self.outputs, None, {})
            if judge_ is not self:
                judge_.q, judge_.k = self.q, self.k
                judge_._walk()
            raw = part.steps[0][1] if part.place is not None else None
            if judge_.before is None and raw is not None and raw.shape[1] == 1:
                # Of one key no step can be told, but whether it has a weight.
                judge_.before = raw * (self.total / (self.q.factor * self.k.factor))
                judge_.hidden = part.steps[-1][1] == 0
            if judge_.before is None or part.place is None or len(part.steps[0][1]) != len(self.core.steps[0][1]):
                return None
            self.hiding = self.hiding or judge_.hiding
            hidden = judge_.hidden if judge_.hidden is not None else np.zeros_like(judge_.before, bool)
            mix = part.mix
            values = mix.form(mix.right, mix.labels[1], mix.columns, mix.summed).swapaxes(1, 2)
            scores = judge_._batched(np.where(hidden, -np.inf, judge_.before))
            found.append((scores.reshape(-1, scores.shape[-1]), values))
        return found

    def _in_base_2(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> bool:
        """Whether the results of several are merged by log-sum-exps of which one half is in base 2."""
        if any(v.shape == parts[0][1].shape and near(v, parts[0][1]) for _, v in parts[1:]):
            # Several queries, one after the other, that ask the same values.
            return False
        with np.errstate(all="ignore"):
            logs = np.stack([np.log(np.exp(s).sum(1)) for s, _ in parts], 1)
        # Where a block sees nothing, nothing of it counts.
        outs = np.nan_to_num(np.stack([_mixed(s, v).reshape(len(s), -1) for s, v in parts], 1))
        shape = (len(parts[0][1]), -1, parts[0][1].shape[2])
        if self._appears((pipeline.softmax(logs, (1,))[..., None] * outs).sum(1).reshape(shape), self.core.mix.number):
            return False
        for factor in (np.log(2), 1 / np.log(2)):
            made = (pipeline.softmax(factor * logs, (1,))[..., None] * outs).sum(1)
            if self._appears(made.reshape(shape), self.core.mix.number):
                made_of = [self._line_of(some / np.log(2)) for some in logs.T]
                line = next(
                    filter(None, [self._raised(logs, *logs.T), *made_of]), self.operations[self.core.mix.number].line
                )
                self.fail("log-sum-exp", "lse_base2", line, "Log-sum-exps of base 2 and e are merged with each other.")
                return True
        return False

    def _merged(self) -> None:
        """What weighs the results of blocks that are all in one product, against the sums of these."""
        mix, before = self.core.merge, self.before
        if mix is None or before is None or len(before) != mix.left.size:
            return
        with np.errstate(all="ignore"):
            logs = np.log(np.exp(before if self.hidden is None else np.where(self.hidden, -np.inf, before)).sum(1))
        rows = logs.reshape(self.core.shape)
        for factor in (1, 1 / np.log(2), np.log(2)):
            for axis in range(rows.ndim):
                made = np.exp(factor * (rows - rows.max(axis, keepdims=True)))
                if permuted(mix.left, made / made.sum(axis, keepdims=True), 1e-6):
                    line = self._raised(logs) or self._line_of(logs / np.log(2)) or self.operations[mix.number].line
                    if factor == 1:
                        self.note("log-sum-exp", "held", "blocks are weighed by their sums", line)
                    else:
                        says = "Log-sum-exps of base 2 and e are merged with each other."
                        self.fail("log-sum-exp", "lse_base2", line, says)
                    return

    def _powers(self) -> bool:
        """Whether a log-sum-exp of one base is raised to a power of the other, where results are merged by it."""
        if self.before is None or self.failed("log-sum-exp"):
            return False
        with np.errstate(all="ignore"):
            seen = self.before if self.hidden is None else np.where(self.hidden, -np.inf, self.before)
            logs = np.log(np.exp(seen).sum(1))
        line = self._raised(logs)
        if line is not None:
            self.fail("log-sum-exp", "lse_base2", line, "Log-sum-exps of base 2 and e are merged with each other.")
        return line is not None

    def _raised(self, *several: np.ndarray) -> Line | None:
        """Where natural log-sum-exps are raised to powers of 2, or those of base 2 to powers of e."""
        for logs in several:
            if not np.isfinite(logs).any() or (logs == np.inf).any() or np.isnan(logs).any():
                continue
            alike = [n for n, op in enumerate(self.operations) if op.host.size == logs.size]
            for factor, power in ((1 / np.log(2), "exp"), (1.0, "exp2")):
                with np.errstate(all="ignore"):
                    made = {n for n in alike if permuted(self.operations[n].host, factor * logs)}
                for number in range(min(made) + 1 if made else 0, len(self.operations) if made else 0):
                    operation = self.operations[number]
                    raised = bool(made & {*operation.sources})
                    if raised and operation.name == power:
                        return operation.line
                    made |= {number} if raised and operation.name in _KEEPS else set()
        return None

    def _lost(self) -> None:
        """Scores that come in blocks, or that were lost on the way to the weights: the whole alone can be judged."""
        core = self.core
        if self._beside() or self._chosen():
            return
        q, values = core.scores.queries, self.v.form
        scored = self.operations[core.scores.number]
        line, name = scored.line, scored.name
        # One key after the other, or one block of them, may be scored in a line.
        numbers = [n for n, op in enumerate(self.operations) if (op.line, op.name) == (line, name)]
        alike = [one for n in numbers if (one := product(self.operations, n)) and one.queries.shape == q.shape]
        blocks = [one.keys for one in alike if near(one.queries, q) and len(one.keys) == len(core.scores.keys)]
        keys = np.concatenate(blocks or [core.scores.keys], axis=1)
        if values.shape[0] == keys.shape[0] and values.shape[1] == keys.shape[1]:
            raw, weights = (q @ keys.swapaxes(1, 2)).reshape(-1, keys.shape[1]), core.weights
            read = tempered(raw, weights.reshape(raw.shape)) if weights.size == raw.size else None
            if read is not None and read[1].all():
                # One key after the other was scored.
                self.total = self.q.factor * self.k.factor * read[0]
                self.note("softmax", "held", "over the keys", self.operations[core.mix.number].line)
                self._scale()
                return
            for factor in (core.scores.width**-0.5, 1.0):
                with np.errstate(all="ignore"):
                    made = pipeline.softmax(q @ keys.swapaxes(1, 2) * factor, (2,)) @ values
                for op in self.operations[core.mix.number :]:
                    if permuted(op.host, made):
                        self.note("output", "held", "softmax of all scores times the values, recomputed", op.line)
                        return
        self.note("scores", "not tried", "the way from the scores to the weights could not be followed", line)
        self._normal()

    def _chosen(self) -> bool:
        """Whether keys that were chosen, such as the best, are weighed by their scores and have their own values."""
        core, number = self.core, self.core.mix.sources[0]
        size, scores = core.weights.size, core.scores.result
        last: np.ndarray | None = None
        while number is not None and [x.size for x in self.operations[number].operands[:1]] == [size]:
            if self.operations[number].name in _CHOOSES:
                # What was chosen may be put in order at last.
                last = self.operations[number].host if last is None else last
                if self.operations[number].operands[0].shape == scores.shape:
                    # All keys were chosen, in an order.
                    break
            number = self.operations[number].sources[0]
        taken = self.operations[number] if number is not None else None
        if taken is None or not taken.operands or taken.host.size != size or taken.operands[0].shape != scores.shape:
            return False
        # Out of which values were taken, by numbers.
        made = self.operations[self.v.source].operands if self.v.source is not None else ()
        whole = made[0] if made else self.v.array
        chosen = taken.host if last is None else last
        # What is put in order may be so by its other sign.
        at = next(filter(None, (places(sign * chosen, taken.operands[0]) for sign in (1, -1))), None)
        theirs = places(self.v.form / (self.v.factor or 1), whole)
        if at is None or theirs is None or taken.host.squeeze().shape != core.weights.squeeze().shape:
            return False
        keys = core.scores.keys.shape[1]
        along = [n for n, c in enumerate(at) if scores.shape[n] == keys and (c != c.take([0], n)).any()]
        own = [c[:, :, 0] for n, c in enumerate(theirs) if whole.shape[n] == keys and (c == c[:, :, :1]).all()
               and (c != c[:, :1]).any()]  # fmt: skip
        if len(along) != 1 or len(own) != 1:
            return False
        raw, mine = (
            core.mix.form(x.reshape(core.weights.shape), core.mix.labels[0], core.mix.rows, core.mix.summed)
            for x in (scores.ravel()[np.ravel_multi_index(at, scores.shape)], at[along[0]])
        )
        if (mine != own[0][:, None]).any():
            # Where these were taken, be it of what was given.
            where = [core.mix.number, *self.v.views, self.v.source]
            line = self.operations[next(n for n in reversed(where) if n is not None)].line
            self.fail("mixing", UNKNOWN, line, "Keys are paired with the values of other positions.")
            return True
        self.note("mixing", "held", "each weight has the value of its key", self.operations[core.mix.number].line)
        read = tempered(raw.reshape(-1, raw.shape[-1]), core.mix.queries.reshape(-1, raw.shape[-1]))
        if read is not None and read[1].all():
            self.total = self.q.factor * self.k.factor * read[0]
            self.note("softmax", "held", "over the keys that were chosen", self.operations[core.mix.number].line)
            self._scale()
        return True

    def _beside(self) -> bool:
        """Whether each weight is that of a key some places on: what was put beside the scores is cut off elsewhere."""
        core, axes = self.core, self.core.key_axes
        others = [axis for axis in range(core.weights.ndim) if axis not in axes]
        weights = core.weights.transpose(others + axes)
        numbers = np.arange(core.scores.result.size).reshape(core.scores.result.shape)
        orders = permutations(range(numbers.ndim)) if len(axes) == 1 and numbers.ndim < _AXES else ()
        for order in orders:
            place: np.ndarray = numbers.transpose(order)
            if place.shape != weights.shape:
                continue
            raw = core.scores.result.ravel()[place].reshape(-1, weights.shape[-1])
            flat = weights.reshape(raw.shape)
            for by in range(1, min(_BESIDE, raw.shape[1] - 2) + 1):
                for x, y, way in ((raw[:, by:], flat[:, :-by], "after"), (raw[:, :-by], flat[:, by:], "before")):
                    if tempered(x, y) is not None:
                        cut = (self.operations[n] for n in core.path[::-1])
                        line = next((op.line for op in cut if op.operands and op.host.size < op.operands[0].size), None)
                        says = f"The weight of a key is that of the key {by} {way} it."
                        self.fail("weights", UNKNOWN, line, says)
                        return True
        return False


def _mixed(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values mixed by the softmax of scores, rows × keys."""
    return np.asarray(pipeline.softmax(scores, (1,)).reshape(len(values), -1, scores.shape[1]) @ values)
