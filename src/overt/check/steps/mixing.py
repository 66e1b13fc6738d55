"""The softmax, and what becomes of the mixed values: heads, groups, projections, places, what is returned."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from overt.check.steps import arrangement, pipeline, projections
from overt.check.steps.judged import UNKNOWN
from overt.check.steps.merging import Merged
from overt.check.steps.origins import Origin, added, behind, constant_over, picked, places
from overt.check.steps.pipeline import constant, near, permuted
from overt.check.text.lines import function_at, returned_at, twice
from overt.recorder.edges import ADDED
from overt.recorder.flow import GATHERS, VIEWS, close, reach_of
from overt.recorder.operations import Line, Operation
from overt.recorder.products import SUMMED, Product, made_of
from overt.recorder.reordered import AVERAGED

# Logits that heads may share their weights with.
SINKS = 64
# Steps whose weights may be stacked.
_STEPS = 64
# The most that is left of a weight that is hidden, where none is to be 0.
_FLOOR = 1e-5
# What returned weights are called.
_WEIGHTS = r"^(?!.*(raw|score|logit|energ)).*(weight|att|alpha|prob)"


class Mixing(Merged):
    """The softmax of one attention and what comes after it."""

    def _summed_at(self) -> Line | None:
        """Where what the weights are divided by is summed."""
        number = self.normaliser
        source = None if number is None else next(iter(self.operations[number].sources[1:]), None)
        while source is not None and self.operations[source].name not in SUMMED:
            source = next(iter(self.operations[source].sources), None)
        line = None if source is None else self.operations[source].line
        before = next(iter(self.operations[source].sources), None) if source is not None else None
        made = None if before is None else self.operations[before].line
        # What only adds up what it is given is told by whoever calls it.
        caller = None if line is None else line.caller
        if caller is None or made is None or made.caller == caller:
            return line
        own = function_at(made.file, made.number) == function_at(caller.file, caller.number)
        return caller if own and made.file == caller.file else line

    def _laid_at(self) -> Line | None:
        """Where all scores of a matrix were laid along one axis, over which they are then summed."""
        keys = self.core.steps[-1][1].shape[1]
        path = [self.operations[number] for number in self.core.path]
        flat = (op for op in path if op.name in VIEWS and op.host.ndim and op.operands[0].shape[-1] == keys)
        return next((op.line for op in flat if op.host.shape[-1] > keys), None)

    def _softmax(self) -> None:
        core, line = self.core, self.softmax_line or self.operations[self.core.mix.number].line
        final = core.steps[-1][1]
        if any(f.mistake == "mask_sign_inf" for f in self.faults):
            return
        asks = self.intended.get("asks")
        if asks and self.operations[core.mix.number].detail == "returned" and core.two:
            queries, keys, _ = self.streams()
            if queries == {f"argument {asks[1]}"} and keys == {f"argument {asks[0]}"}:
                self.fail("softmax", "softmax_axis_q", line, "The weights of a key sum to 1, over the queries.")
                return
        if self.phase == "raw" or self.weights is None or self.before is None:
            if self.intended.get("no softmax"):
                self.note("softmax", "not tried", "it says that there is none", line)
            elif np.isnan(final).any():
                self.note("softmax", "not tried", "of NaN nothing can be said", line)
            elif not self.odd:
                self.fail("softmax", "softmax_missing", line, "The scores mix the values without a softmax.")
            return
        divided, times, sums = None, None, np.nansum(final, 1)
        if self.phase == "exp":
            divided = self._divided(sums)
            times = None if divided else self._divided(1 / sums)
            with np.errstate(all="ignore"):
                self.weights = final / sums[:, None] if divided else final
        blind = np.zeros_like(self.before, bool) if self.hidden is None else self.hidden
        # Of a row that sees nothing, nothing is said.
        before = np.where(blind.all(1, keepdims=True), -np.inf, self.before)
        mistake, known = pipeline.softmax_mistake(core, before, self.weights)
        if not known and self.exponents is not None:
            # What is one number for a row counts beside other rows.
            mistake, known = pipeline.softmax_mistake(core, self.exponents, self.weights)
            known = known and mistake is not None
        live = ~(np.isneginf(before).all(1) | np.isnan(before).any(1))
        right = pipeline.softmax(before, (1,))
        if known and mistake is None:
            how = "over the keys, divided by the sums after the values are mixed" if divided else "over the keys"
            self.note("softmax", "held", how, line)
        elif known and mistake == "softmax_axis_q" and not core.two:
            # Positions are shared among what is learned, and hidden ones belong to nothing.
            self.forget("mask_after_softmax")
            self.note(
                "softmax", "not tried", "each key is shared among learned queries, as in pooling by clusters", line
            )
        elif known and mistake in ("softmax_axis_q", "softmax_axis_head_or_batch") and self._shares(sums):
            self.note(
                "softmax", "held", "queries, or heads, compete, and each divides by what it has of the keys", line
            )
        elif known and mistake is not None:
            # One maximum for all is right where all are summed; of what is divided by its sum, no scale is left.
            self.forget("global_max", *(["scale"] if mistake == "no_exp_norm" else []))
            whole = mistake in ("softmax_global", "softmax_heads_and_keys")
            line = (self._laid_at() if whole else None) or self._summed_at() or line
            self.fail(
                "softmax", mistake, line, "The weights are no softmax over the keys.", right[live], self.weights[live]
            )
        elif self._unseen() and near(self._over_some(before), self.weights, 1e-4):
            self._hide(self.weights == 0, core.mix.number)
            self.note("softmax", "held", "over the keys that have a weight", line)
        elif self.hidden is not None and close(self._renormalised(right), self.weights, 1e-4, _FLOOR):
            self.note("softmax", "held", "over the keys that are seen", line)
        elif self.hidden is not None and near(np.where(self.hidden, 0, right), self.weights, 1e-4):
            says = "Exponentials are masked, and their sums are those of all keys."
            self.fail("mask", "mask_after_softmax", self.mask_line, says, right[live], self.weights[live])
        elif self._by_source():
            # What is subtracted from the scores goes by these nodes too.
            self.forget("stability")
            says = "The weights of the edges from a node sum to 1, and those to a node are summed over."
            made = (self.operations[n] for n in sorted(made_of(self.operations, core.mix.sources[0])))
            line = next((one.line for one in made if one.name in ADDED), line)
            # Whoever calls what sums says by which nodes.
            self.fail("softmax", "softmax_axis_q", (line and line.caller) or line, says)
        elif self.odd:
            self.note("softmax", "not tried", "the scores before it were not understood", line)
        elif times is not None:
            self.fail("softmax", UNKNOWN, times.line, "The mixed values are multiplied by the sums of their weights.")
        elif self.phase == "exp" and not divided and [permuted(x, core.mix.output) for x in self.outputs] == [True]:
            says = "The weights of a query do not sum to 1, and nothing divides what is returned."
            self.fail("softmax", UNKNOWN, line, says, right[live], self.weights[live])
        elif self.phase == "exp" and not divided:
            self.note("softmax", "not tried", "exponentials, whose sums are taken somewhere else", line)
        elif self.rounded is not None and np.allclose(right[live], self.weights[live], rtol=2**-5, atol=2**-8):
            says = "Scores or weights are kept in half precision."
            self.fail("softmax", "softmax_low_precision", self.rounded, says, right[live], self.weights[live])
        elif self.fitted or self._quiet(before, self.weights) or self._elsewhere(before, right, self.weights):
            self.note("softmax", "held", "over the keys and one more that has no value", line)
        elif not live.any():
            self.note("softmax", "not tried", "no query of this call sees a key", line)
        elif self.shifted is not None:
            says = "What is subtracted from the scores is not one number for all keys of a query."
            self.fail("softmax", UNKNOWN, self.shifted, says, right[live], self.weights[live])
        else:
            self.fail(
                "softmax", UNKNOWN, line, "The weights are no softmax of the scores over the keys.", right[live],
                self.weights[live],
            )  # fmt: skip

    def _shares(self, sums: np.ndarray) -> bool:
        """Whether weights, or the mixed values, are divided by their sums over the keys, or by these and a number."""
        return self.shared or self._divided(sums) not in (None, self.operations[self.core.mix.number])

    def _unseen(self) -> bool:
        """Whether what hides keys was not seen, as in masked arrays of NumPy: no step has a score of -inf."""
        return self.hidden is None and not any(np.isneginf(x).any() for _, x in self.core.steps)

    def _over_some(self, before: np.ndarray) -> np.ndarray:
        """The softmax of scores over the keys that have a weight."""
        assert self.weights is not None
        return pipeline.softmax(np.where(self.weights == 0, -np.inf, before), (1,))

    def _by_source(self) -> bool:
        """Whether the weights of the edges of a graph sum to 1 for each node that they come from."""
        core, axes = self.core, self.core.key_axes
        ends = [x for op in self.operations for x in op.operands if x.dtype.kind in "iu" and x.ndim == 2]
        ends = [x for x in ends if len(axes) == 1 and x.shape[1] == core.weights.shape[axes[0]]]
        for axis in (a for a in range(core.weights.ndim) if a not in axes):
            for index in (x for x in ends if len(x) == core.weights.shape[axis]):
                cells = np.moveaxis(core.weights, (axis, axes[0]), (0, 1)).reshape(index.size, -1)
                sums = np.zeros((index.max() + 1, cells.shape[1]))
                np.add.at(sums, index.ravel(), cells)
                if near(sums, np.ones_like(sums), 1e-4):
                    return True
        return False

    def _renormalised(self, right: np.ndarray) -> np.ndarray:
        assert self.hidden is not None
        kept = np.where(self.hidden, 0, right)
        with np.errstate(all="ignore"):
            return np.asarray(kept / kept.sum(1, keepdims=True))

    def _quiet(self, before: np.ndarray, weights: np.ndarray) -> bool:
        """exp(s) / (1 + Σ exp(s)), as where a row may attend to nothing."""
        powers = np.exp(before)
        return near(powers / (1 + powers.sum(1, keepdims=True)), weights, 1e-4)

    def _elsewhere(self, before: np.ndarray, right: np.ndarray, weights: np.ndarray) -> bool:
        """Whether each row is a softmax but for the share of a sink: a logit that joined, or that some array holds."""
        sums = weights.sum(1)
        # Some rows may have nothing beside their keys.
        beside = (sums > 0) & (sums < 1 + (1e-5 if self.core.sink else 0))
        if not beside.all() or not near(right * sums[:, None], weights, 1e-4):
            return False
        if self.core.sink:
            return True
        largest = before.max(1)
        sinks = largest + np.log(np.exp(before - largest[:, None]).sum(1)) + np.log(1 / sums - 1)
        held = [x.ravel() for op in self.operations for x in op.operands if x.dtype.kind == "f" and x.size <= SINKS]
        return any(np.isclose(sinks[:, None], x[None], rtol=1e-4).any(1).all() for x in held)

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
        found = projections.shared(
            self.operations, self.data, [(name, one.source, made) for name, one, made in named], self.idle
        )
        matrices = [self._for_all_heads(one, made) for _, one, made in named] if self.sum is None else [None]
        if found is None and matrices[0] is not None and None not in matrices:
            found = matrices[0], "All heads are projected with one matrix."
        if found is not None:
            self.fail("projection", "shared_projection", self.operations[found[0]].line, found[1])
            return
        both = self.k.source, self.v.source
        line = self.operations[self.core.mix.number].line
        if line is None or None in both or both[0] == both[1] or self.intended.get("shares"):
            return
        alike = self.k.array.shape == self.v.array.shape and np.array_equal(self.k.array, self.v.array)
        if alike and self._projected(self.k) is not None:
            # Who means to share one computes it once.
            number = twice(line.file, line.number)
            if number is not None:
                says = "What keys and values are is computed twice, in the same way."
                self.fail("projection", "shared_projection", Line(line.file, number), says)

    def _for_all_heads(self, one: Origin, made: Product | None) -> int | None:
        """The product with one matrix of all heads, whose features lie behind one another in what is projected."""
        at = one.places
        if made is None or at is None or made.columns == "" or made.batch:
            return None
        before = self._followed(made.queries, made.sources[0], made.left)
        whole, width = before.places, made.width
        if whole is None or before.array.shape[-1] <= width or one.array.shape[:-1] != made.left.shape[:-1]:
            return None
        # Of each projected row, which piece of the features it has.
        piece = whole[-1][0, :, 0].astype(int) // width
        rows = np.ravel_multi_index([c[:, :, 0] for c in at[:-1]], one.array.shape[:-1])
        of_heads = piece[rows]
        return made.number if (of_heads == of_heads[:, :1]).all() and len(np.unique(of_heads)) > 1 else None

    def _paired(self) -> None:
        """Whether what belongs together was kept together: features of a position, key and value, query and output."""
        means = (op for op in self.operations if op.detail == AVERAGED and self.core.mix.number in op.sources)
        if (mean := next(means, None)) is not None:
            says = "The values of each head are mixed by the mean of the weights of all heads."
            if self.intended.get("own weights"):
                self.fail("mixing", UNKNOWN, mean.line, says)
            else:
                self.note("mixing", "not tried", says, mean.line)
        number = self.alignment.lies_behind(self.core)
        if number is not None:
            line = self.operations[self.alignment.line_before(number)].line
            says = "What is taken for the features of a position are some features of several positions."
            self.fail("positions", UNKNOWN, line, says)
        queries, keys, values = self.streams()
        if constant(self.v.form, 1) and not constant(self.v.form) and not constant(self.k.form, 1):
            line = self.operations[self.core.mix.number].line
            self.fail("values", UNKNOWN, line, "What is mixed for a query is the same for all keys.")
        # What is learned may ask what is given, whichever of both stands first in the product.
        apart = values == queries and not values & keys and any(one.startswith("argument") for one in keys)
        if self.intended.get("memory") and apart:
            source = self.v.source
            line = self.operations[self.core.mix.number if source is None else source].line
            says = "The values come from what the queries come from, and the keys from something else."
            self.fail("values", UNKNOWN, line, says)
        same = self.k.source is not None and self.k.source == self.v.source and self.k.form.shape == self.v.form.shape
        if (
            same
            and near(self.k.form / (self.k.factor or 1), self.v.form / (self.v.factor or 1))
            and projections.beside(
                self.operations, self.outputs, self.k, self.k.views + self.v.views, self._projected(self.k)
            )
        ):
            line = self.operations[self.core.mix.number].line
            self.fail("values", UNKNOWN, line, "The weights mix the keys, and what lies beside these is never used.")
        one, two = (added(self.operations, some) for some in (self.k, self.v))
        if one is not None and two is not None and len(one) == len(two) and one != two:
            line = self.operations[self.v.source or 0].line
            self.fail("values", UNKNOWN, line, "Values are kept in another order than their keys.")
        elif (astray := self._samples_astray()) is not None:
            says = "Keys and values are put in other orders of samples, so some meet those of another one."
            self.fail("mixing", UNKNOWN, self.operations[astray].line, says)
        elif self.sum is None and self.alignment.strangers(self.core):
            line = self.operations[self.alignment.parted(self.core)].line
            self.fail("mixing", UNKNOWN, line, "Keys are paired with the values of other positions.")
        elif self._taken_apart() or arrangement.fetched_apart(
            self.core, (self.k, self.v), self.reach, self._looked_at()
        ):
            line = self.operations[(self.v.views or [self.core.mix.number])[-1]].line
            self.fail("mixing", UNKNOWN, line, "Keys are paired with the values of other positions.")
        if (
            self.alignment.exchanged
            and self.core.mix.output.any()
            and not (self.failed("merge") or self.failed("positions"))
        ):
            line = self.operations[self.alignment.line_before(self.alignment.exchanged[0])].line
            self.fail("merge", UNKNOWN, line, "What was mixed for a query is put at the place of another.")

    def _looked_at(self) -> np.ndarray:
        """Which keys, (batch, keys), have weight for any query."""
        return np.asarray((self._batched(self.core.steps[-1][1]) > 0).any(1))

    def _samples_astray(self) -> int | None:
        """What puts the samples of keys or of values in an order that those of the other are not put in."""
        keys, values = (picked(self.operations, s) for s in (self.core.scores.sources[1], self.core.mix.sources[1]))
        if keys is None or values is None:
            return None
        return next((number for one, two in ((keys, values), (values, keys)) for order, number in one.items()
                     if order not in two), None)  # fmt: skip

    def _taken_apart(self) -> bool:
        """Whether of keys and values, put beside what was kept, other positions are taken."""
        core = self.core
        one, two = (_positions(self.operations, source, form) for source, form in
                    ((core.scores.sources[1], core.scores.keys), (core.mix.sources[1], self.v.form)))  # fmt: skip
        if one is None or two is None or one[0] != two[0]:
            return False
        # Of equal rows nobody knows which one was taken.
        return one[1] != two[1] and all(len(set(some)) == len(some) for some in (one[1], two[1]))

    def _grouped(self) -> None:
        """Which key head each query head reads, where there are fewer."""
        core = self.core
        n, length, width = core.scores.keys.shape
        at = self.k.places
        if at is None or not n or len(np.unique(self.k.form)) * 2 > n * length * width:
            return
        # The head is the axis that follows the batch row alone, beside that of the samples.
        mine = [c for c in at if constant_over(c) and len(np.unique(c)) > 1]
        if self.k.array.shape[-1] > width and constant_over(at[-1] // width):
            mine = [at[-1] // width]
        # Samples are those of the queries; where that is not seen, the first axis.
        asking = [c[:, 0, 0] for c in self.q.places or () if len(c) == n and constant_over(c)]
        samples = next((c for c in mine if any(np.array_equal(c[:, 0, 0], one) for one in asking)), at[0])
        if len(mine) > 1:
            mine = [c for c in mine if c is not samples]
        if len(mine) != 1:
            return
        apart = [c[:, :, 0] for c in at if (c == c[:, :, :1]).all() and (c != c[:, :1]).any()]
        paged = _paged(apart)
        if paged is None and not any((c == c[:1, :, :1]).all() and len(np.unique(c)) == length for c in at):
            if self._by_given():
                return
            # Each head of queries has as many keys as there are: some of them twice, or in an order of its own.
            along = [c for c in at[:-1] if len(np.unique(c)) == length and (c == c[:, :, :1]).all()]
            mixed = any(len(np.unique(row)) < length or (row != c[0, :, 0]).any() for c in along for row in c[:, :, 0])
            if mixed and (repeats := self._repeats()) and repeats.line:
                says = "The keys of some heads are others, or in another order: they are repeated along the positions."
                self.fail("groups", "gqa_repeat_wrong_axis", repeats.line, says)
            else:
                self.note("groups", "not tried", "where the keys' positions came from could not be followed")
            return
        heads = mine[0][:, 0, 0]
        G = len(np.unique(heads))
        which = samples[:, 0, 0] if constant_over(samples) and samples is not mine[0] else np.zeros(n, int)
        which = paged if paged is not None and paged.any() else which
        row = np.unique(heads[which == which[0]], return_inverse=True)[1].ravel()
        if len(row) % G or len(row) == G:
            return
        view = self.operations[self.k.views[0] if self.k.views else core.scores.number]
        repeats = self._repeats() or view
        line = repeats.line or view.line
        if np.array_equal(row, np.arange(len(row)) // (len(row) // G)):
            self.note("groups", "held", "head h reads key head h // (H/G)", line)
        elif np.array_equal(row, np.arange(len(row)) % G):
            says, one = "Query head h reads key head h mod G.", next(iter(repeats.operands), repeats.host)
            # Positions repeated in place, and then read as heads, give the order of heads that lie side by side.
            grown = [axis for axis, (a, b) in enumerate(zip(one.shape, repeats.host.shape, strict=False)) if a != b]
            sure = bool(self.intended.get("grouped") and one.ndim == repeats.host.ndim and grown)
            there = places(self.k.form / self.k.factor, one) if sure else None
            moved = there is not None and bool((there[grown[0]] != there[grown[0]][:, :1]).any())
            mistake = "gqa_repeat_wrong_axis" if moved else "gqa_tile"
            self.fail("groups", mistake, line, says, np.arange(len(row)) // (len(row) // G), row)

    def _by_given(self) -> bool:
        """Whether keys are taken by what was given, such as the ends of edges, and not repeated."""
        several = (self.operations[n] for n in self.k.views)
        return any(i and x.dtype.kind in "iu" and reach_of(op, i, self.reach) for op in several
                   for i, x in enumerate(op.operands))  # fmt: skip

    def _repeats(self) -> Operation | None:
        """What repeats the keys."""
        several = (self.operations[n] for n in self.k.views)
        return next((op for op in several if op.operands and op.host.size > op.operands[0].size), None)

    def _returned(self) -> None:
        """What is returned beside the output: weights, scores in their place, or log-sum-exps."""
        core = self.core

        def like(x: np.ndarray, y: np.ndarray) -> bool:
            # Those of several steps may be stacked.
            stacked = [
                axis for axis, length in enumerate(x.shape) if x.size == length * y.size and 1 < length <= _STEPS
            ]
            parts = [x] if x.size == y.size else [part for axis in stacked for part in np.moveaxis(x, axis, 0)]
            # Or those of several heads have one mean.
            over = [axis for axis, n in enumerate(core.shape) if n > 1 and x.size * n == y.size]
            pairs = [(part, y) for part in parts] + [(x, y.reshape(*core.shape, -1).mean(axis)) for axis in over]
            flat = ((np.sort(one, axis=None), np.sort(two, axis=None)) for one, two in pairs)
            return any(np.allclose(one, two, rtol=1e-4, atol=1e-6) for one, two in flat)

        final = core.steps[-1][1]
        weights = [final] if self.weights is None else [final, self.weights]
        # What lies between 0 and 1 already is weights that are not done, as of slots that compete for the inputs.
        scores = [y for _, y in core.steps[:-1] if y.size and not (y.min() >= 0 and y.max() <= 1)]
        returned = any(like(array, y) for array in self.outputs[1:] for y in weights)
        self.facts |= {"weights returned": True} if returned else {}
        if self.operations[core.mix.number].detail == pipeline.GIVEN[2]:
            line = self._handed_out(core.scores.number) or self.softmax_line
            self.fail("weights", "returns_scores", line, "Scores are returned in the place of weights.")
        names = [str(name) for name in self.intended.get("returned", [""] * len(self.outputs))]
        for name, array in zip(names[1:], self.outputs[1:], strict=True):
            if any(like(array, y) for y in weights):
                continue
            if any(like(array, y) for y in scores) and np.isfinite(array).any() and self.phase != "raw":
                # What has a name of its own, or lies beside the weights, is what it is.
                told = returned or self.intended.get("returns scores")
                if not told and (re.fullmatch(r"[.\d]*", name) or re.search(_WEIGHTS, name, re.I)):
                    made = next(n for n, y in core.steps[-2::-1] if like(array, y))
                    line = self._handed_out(core.scores.number if made is None else made)
                    self.fail("weights", "returns_scores", line, "Scores are returned in the place of weights.")
            elif array.size == len(final) and self.before is not None:
                with np.errstate(all="ignore"):
                    top = self.before.max(1)
                    lse = top + np.log(np.exp(self.before - top[:, None]).sum(1))
                if like(array, lse):
                    self.note("log-sum-exp", "held", "natural")
                elif like(array, lse / np.log(2)):
                    line = self._line_of(lse / np.log(2))
                    self.fail("log-sum-exp", "lse_base2", line, "The log-sum-exp is in base 2.", lse, array)

    def _handed_out(self, made: int) -> Line | None:
        """Where the function that makes scores, and weights of them, returns the scores."""
        line, last = self.operations[made].line, self.softmax_line
        if line is None or last is None or line.file != last.file:
            return None
        number = returned_at(line.file, line.number, last.number)
        return None if number is None else Line(line.file, number)

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


def _positions(operations: Sequence[Operation], number: int | None, form: np.ndarray) -> tuple[int, list[int]] | None:
    """How many positions there are in what keys or values were put together to, and which of them each is."""
    joined = behind(operations, number)
    while joined is not None and operations[joined].name in GATHERS:
        # What was taken apart and put together again is still that.
        number = joined
        before = {behind(operations, source) for source in operations[joined].sources}
        joined = before.pop() if len(before) == 1 else None
    if number is None or operations[number].name not in GATHERS:
        return None
    array = operations[number].host
    at = places(form, array)
    along = [] if at is None else [n for n, c in enumerate(at) if (c != c[:, :1]).any() and (c == c[:1, :, :1]).all()]
    return None if at is None or len(along) != 1 else (int(array.shape[along[0]]), [*map(int, at[along[0]][0, :, 0])])


def _paged(places: Sequence[np.ndarray]) -> np.ndarray | None:
    """Which rows (n, keys) have the same keys, by their page and their place in it; None where keys come twice."""
    if len(places) < 2:
        return None
    rows = np.stack(places, axis=-1)
    _, which = np.unique(rows.reshape(len(rows), -1), axis=0, return_inverse=True)
    alike, several = np.unique(which, return_counts=True)[1], [len(np.unique(row, axis=0)) for row in rows]
    own = (alike == alike[0]).all() and alike[0] > 1 and set(several) == {rows.shape[1]}
    return which.ravel() if own else None
