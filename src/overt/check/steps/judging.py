"""Every step of a recorded attention, judged on the candidate's own input to that step, and then the whole.

Mistakes do not compound here: given its queries and keys, are these the scores; given its scores, is this the mask;
given its masked scores, is this the softmax over the keys.  What no step of attention is, is located.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, permutations
from typing import Any

import numpy as np

from overt.check.report import Entry
from overt.check.steps import additive, arrangement, distances, pipeline, positional, projections, turning
from overt.check.steps.alignment import Alignment
from overt.check.steps.blocks import Blocks
from overt.check.steps.dropped import masks_dropped
from overt.check.steps.judged import SUMS, UNKNOWN, Judged
from overt.check.steps.masking import LATER
from overt.check.steps.origins import Origin
from overt.check.steps.pipeline import constant, near
from overt.check.steps.rounding import crossed
from overt.recorder.apart import apart, chooses
from overt.recorder.core import Core, attentions
from overt.recorder.flow import SAMPLES, carriers, moving, reaches, sums_to_one
from overt.recorder.fused import uneven
from overt.recorder.operations import Line, Operation
from overt.recorder.products import Product, contracted, made_of
from overt.recorder.reordered import REORDERED

Shapes = Mapping[str, tuple[int, ...]]
# Axes of what divides a result.
_AXES = 4
_BARE = "Context and state are mixed by a matrix, and there is no tanh."


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
    mixes = bool(found)
    returned = operations if any(core.normal for core in found) else additive.completed(operations, outputs)
    if not mixes and len(returned) == len(operations) and (intended or {}).get("returns weights"):
        returned = additive.completed(operations, outputs, promised=True)
    if not mixes or len(returned) > len(operations):
        again, more, _ = attentions(returned)
        # Where weights are returned that mix nothing, queries that meet their keys look like weights and values.
        # But what a layer of classes makes of what was mixed is no weight of it.
        met, followed = {core.mix.number for core in found}, [c for c in more if c.place is not None]
        alone = [c for c in followed if c.scores.number in met and again[c.mix.number].detail in pipeline.GIVEN]
        if not mixes or alone:
            written, found, mixes = again, alone if mixes else more, False
    if not any(core.normal for core in found) and (intended or {}).get("no softmax"):
        again, more, _ = attentions(operations, free=True)
        written, found = (again, more) if more else (written, found)
    found = [core for core in found if not _is_loss(core)]
    windows = [] if any(core.normal for core in found) else positional.windows(operations, carriers(operations))
    found, mixes = ([], True) if windows else (found, mixes)
    judged = Judged(len(windows or found))
    for window in windows:
        judged.enter(*window)
    judged.facts["mixes"] = mixes
    if not found and (intended or {}).get("luong"):
        _vector(judged, operations, outputs)
    data = carriers(written)
    used = {origin for op in operations for origin in op.origins}
    idle = {name: shape for name, shape in (given or {}).items() if name not in used}
    alignment = Alignment(written, found).follow(outputs)
    others: list[tuple[Origin, Origin, Origin]] = []
    families, chooses, hiding = _families(found), True, set[Line | None]()
    for number, core in enumerate(core for core in found if not _continues(core, families[id(core)])):
        one = _Judge(core, data, outputs, causal, idle)
        one.alignment = alignment
        one.intended = intended or {}
        family = families[id(core)]
        beside = [other for other in family if other.scores.number != core.scores.number]
        # What is true of all shards is asked of the first of them.
        one.blocks, one.shards = ([], beside if core is family[0] else []) if core.normal else (beside, [])
        one.run()
        one.placed()
        chooses &= not any(name.startswith("argument") for name in one.streams()[1])
        name = f"attention {number + 1}, " if len(found) > 1 else ""
        if any(projections.alike(one.operands, other) for other in others):
            # Where the queries are projected, which begins it.
            made = one._projected(one.q) or core.mix
            line = core.operations[made.number].line
            one.fail("projection", "shared_projection", line, "Two attentions have the same queries, keys and values.")
        others.append(one.operands)
        if (line := _carried(core, found)) is not None:
            one.fail("bias", "inplace", line, "The scores are written into what the next attention adds its own to.")
        hiding |= {one.softmax_line} if one.hides_some_by_place() and not one.failed("causal") else set()
        judged.faults += [f for f in one.faults if f not in judged.faults]
        judged.ledger += [Entry(name + e.step, e.outcome, e.why, e.line, e.mistake) for e in one.ledger]
        for key, value in one.facts.items():
            judged.facts[key] = judged.facts.get(key) or value
    if found and not mixes and chooses:
        # Weights of what is learned, which mix nothing, choose, as a router does.
        return Judged(0)
    # Of one thing there are as many keys as values, unless the code loses some of them.
    reach = reaches(operations) if any(map(uneven, operations)) else ()
    lost = [op for op in operations if uneven(op) and None not in op.sources[:3]]
    for line in {op.line for op in lost if found and len({reach[s] for s in op.sources[:3] if s is not None}) == 1}:
        judged.enter("mixing", "kv_len_mismatch", line, "There are not as many values as keys.", "mistake")
    # Other weights than those of an attention, as what pools has, may have a mask that is dropped.
    told = {f.mistake for f in judged.faults}
    around = [("mask", "not_inplace", op, f"The result of {op.name} is dropped, so the mask hides nothing.")
              for op in masks_dropped(written, outputs, data) if found and "not_inplace" not in told]  # fmt: skip
    around += [("values", UNKNOWN, op, "What was rounded is multiplied by what something else was divided by.")
               for op in crossed(written) if found]  # fmt: skip
    for step, mistake, op, says in around:
        judged.enter(step, mistake, op.line, says)
    # How many keys the attentions have, and where these are: one that has as many as samples may be along these.
    judged.facts["spans"] = [
        {"keys": core.scores.keys.shape[1], "fused": core.operations[core.scores.number].detail == "fused",
         **arrangement.place(core.operations[core.scores.number].line)} for core in found
    ]  # fmt: skip
    judged.facts["blank"] = arrangement.blank(found)
    empty = [op.host for op in operations if op.name in ("empty", "empty_like", "new_empty") and op.host.size]
    # What was in the memory before is still there.
    left = [float((x == y).mean()) for x in empty for y in outputs if x.shape == y.shape]
    judged.facts["unwritten"] = any(0 < share < 1 for share in left)
    # The last of many steps, which sees all that came before it, hides nothing.
    lines = {(line.file, line.number) for line in hiding if line is not None}
    steps = [f for f in judged.faults if f.mistake == "causal_missing" and (f.file, f.line) in lines]
    judged.faults = [f for f in judged.faults if f not in steps]
    # Of a decoder's two attentions one looks at another sequence; and what has learned biases in one of its attentions
    # may have its scale in the parameters of all (T5).
    no = {"causal_missing"} if "causal" in judged.facts else set()
    no |= {"scale_missing"} if judged.facts.get("learned bias") else set()
    judged.faults = [f for f in judged.faults if f.mistake not in no]
    judged.ledger = [e for e in judged.ledger if e.mistake not in no]
    return judged


def _vector(judged: Judged, operations: Sequence[Operation], outputs: Sequence[np.ndarray]) -> None:
    """Luong's attentional vector by itself: a function of a context and a state."""
    found = additive.vector(operations, reaches(operations), outputs, None)
    if found is None:
        return
    judged.cores, line = 1, operations[found[0]].line
    if found[1]:
        judged.enter("vector", "luong_no_tanh_out", line, _BARE)
    else:
        judged.enter("vector", "", line, "bent after the matrix")


def _is_loss(core: Core) -> bool:
    """Whether 1 is taken away where the right one is, as in the gradient of a cross entropy: nothing is attended to."""
    for (_, x), (_, y) in pairwise(core.steps):
        if x.shape == y.shape and len(x) > 1 and x.shape[1] > 1 and np.isfinite(x).all() and (x >= 0).all():
            cells = np.abs(x - y) > 1e-9
            taken = (x - y)[cells]
            if (cells.sum(1) == 1).all() and taken[0] > 0 and np.allclose(taken, taken[0], rtol=1e-6):
                return True
    return False


def _carried(core: Core, found: Sequence[Core]) -> Line | None:
    """The line that adds scores to an array, in place, to which another attention so added its own."""

    def changing(number: int) -> bool:
        operation = core.operations[number]
        return operation.name in SUMS and bool(re.search(r"[+-]=|\w_\(", operation.line.text if operation.line else ""))

    before = {number for other in found if other is not core for number in other.path if changing(number)}
    return next((core.operations[number].line for number in core.path
                 if changing(number) and core.operations[number].sources[0] in before), None)  # fmt: skip


def _continues(core: Core, family: Sequence[Core]) -> bool:
    """Whether a core is one more block of keys of an attention whose first block stands before it in its family."""
    first = next((other for other in family if other is core or not other.normal), core)
    return first.scores.number != core.scores.number


def _families(found: Sequence[Core]) -> dict[int, list[Core]]:
    """For each core, by id, all of the same lines for the same queries: with other keys, unless the product is one."""
    families: dict[object, list[list[Core]]] = {}
    for core in found:
        lines = (core.operations[core.mix.number].line, core.operations[core.scores.number].line)
        alike = families.setdefault((lines, core.scores.queries.shape), [])
        # A loop over keys inside one over queries comes to the same family as before.
        family = next((some for some in reversed(alike) if _asks_as(some[0], core)), None)
        if family is None:
            alike.append(family := [])
        family.append(core)
    home: dict[int, list[Core]] = {}
    # The first of the blocks that are joined later may have lines of its own.
    blocks: list[list[Core]] = []
    for family in sorted(chain(*families.values()), key=lambda family: family[0].mix.number):
        joined = all(core.normal for core in family)
        other = None if joined else next((some for some in blocks if _asks_as(some[0], family[0])), None)
        if other is None and not joined:
            blocks.append(family)
        elif other is not None:
            other += family
        home |= {id(core): other or family for core in family}
    return home


def _asks_as(core: Core, other: Core) -> bool:
    """Whether both have the same queries."""
    return near(core.scores.queries, other.scores.queries)


class _Judge(Blocks):
    """One core."""

    def run(self) -> None:
        core = self.core
        self.q = self._followed(core.scores.queries, core.scores.sources[0], core.scores.left)
        self.k = self._followed(core.scores.keys, core.scores.sources[1], core.scores.right)
        values = core.mix.form(core.mix.right, core.mix.labels[1], core.mix.columns, core.mix.summed).swapaxes(1, 2)
        self.v = self._followed(values, core.mix.sources[1], core.mix.right)
        for name, one in (("queries", self.q), ("keys", self.k), ("values", self.v)):
            self._split(name, one)
        if arrangement.across(self.q, self.k):
            says = "The keys of a query are the features of one position."
            self.fail("scores", "k_transposed_wrong", self.operations[core.scores.number].line, says)
        at = self.v.places
        if self.v.source is None and at is not None:
            # Where the values are an argument, and which of its axes has the positions.
            along = [axis for axis, c in enumerate(at) if (c != c[:, :1]).any() and (c == c[:, :, :1]).all()]
            self.facts["values"] = [int(n) for n in self.v.array.shape]
            self.facts["value axis"] = along[0] if len(along) == 1 else None
        attended = self.reach[core.mix.sources[1]] if core.mix.sources[1] is not None else {core.mix.origins[1]}
        self.facts["attended"] = sorted(int(o.split()[-1]) for o in attended if o.startswith("argument "))
        queries, *others = self.streams()
        line = self.operations[core.mix.number].line
        # Where one key alone has weight, neither it nor the query can change that.
        self.facts["weighs several"] = bool(((np.nan_to_num(core.weights) != 0).sum(tuple(core.key_axes)) > 1).any())
        self.facts |= {"queries": core.scores.queries.shape[1], "mixed at": line.number if line else None}
        if not queries & others[0].union(others[1]):
            self.facts["asked by others"] = sorted(
                int(o.split()[-1]) for o in others[0] | others[1] if "argument " in o
            )
        if self.intended.get("operands"):
            self.facts["operands"] = {
                "q": core.scores.queries.tolist(), "k": core.scores.keys.tolist(), "v": self.v.form.tolist()
            }  # fmt: skip
        if not core.steps or core.steps[-1][1].shape[1] < 2 or core.steps[-1][1].size < 3:
            self.facts["one key"] = True
            self.note("scores", "not tried", "there is one key, to which every query attends whatever is done")
            return
        if not core.weights.any():
            self.note("softmax", "not tried", "no query of this call sees a key", line)
            return
        if any(self.operations[number].detail == REORDERED for number in core.path):
            self._reordered()
            return
        if self._keyless():
            # Whatever the scores are, what becomes of them can be followed.
            self._walk()
            if core.place is not None and not constant(core.steps[0][1], 1):
                self._softmax()
                self._returned()
            self._made()
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
        mistake, known = None, False
        if self.phase == "prob" and self.before is not None and self.weights is not None:
            mistake, known = pipeline.softmax_mistake(core, self.before, self.weights)
        soft = known and mistake is None
        # Where scores are raised to powers of e, a softmax is meant.
        mapped = positive or not (core.normal or self._features() or self.exponential or known)
        if mapped:
            why = "what is summed are positions, or features that are mapped first"
            self.note("scale" if soft else "scores", "not tried", why)
            if not soft:
                self._normal()
                return
        if not mapped:
            self._scale()
        if self.blocks:
            self._joined()
            return
        self._softmax()
        self._merged()
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
        self._powers()
        self._made()
        self._whole()

    def placed(self) -> None:
        """Where its positions come in, and how its operands lie."""
        self.facts |= arrangement.seen(self.core, (self.q, self.k, self.v))
        least, whole, at = arrangement.chosen(self.core, self.intended.get("largest") or ())
        self.facts |= {"chooses all": True} if whole else {}
        if least:
            self.fail(
                "choice", UNKNOWN, at, "What is chosen has the smallest numbers, and is said to have the largest."
            )
        for one in chain(
            positional.tables(self.core, self.data),
            positional.counted(self.core),
            positional.embedded(self.core, self.intended),
            turning.turned(self.core, self.data, self.operands, self.intended, self.facts),
            distances.biases(self.core, self.data, self.intended, self.facts),
            distances.shifted(self.core, self.data),
            distances.gathered(self.core, self.intended),
        ):
            self.ledger = [e for e in self.ledger if (e.step, e.outcome) != (one.step, "not tried")]
            self.facts[one.step] = True
            if one.mistake:
                self.fail(one.step, one.mistake, one.line, one.says, one.expected, one.actual)
            else:
                self.note(one.step, "not tried" if one.mistake is None else "held", one.says, one.line)

    def _reordered(self) -> None:
        """Weights that were computed nowhere, since keys and values were multiplied first: what divides the result."""
        core = self.core
        line = self.operations[core.mix.number].line
        seen, all_ = (x.sum(1) for x in (core.steps[-1][1], core.steps[0][1]))
        other, hides = self._divisor(seen), not near(seen, all_)
        if self.promised and not hides and core.scores.queries.shape[1] > 1:
            # All that was multiplied first is in one state.
            source, origin = core.mix.sources[1], core.mix.origins[1]
            made = (op.line for op in self.operations[: core.mix.number]
                    if (source in op.sources if source is not None else origin in op.origins))  # fmt: skip
            self.fail("causal", "causal_missing", next(made, line), LATER)
        elif hides and self._divided(all_) and not self._divided(seen):
            says = "What is mixed for a query is divided by a sum over all keys, and not over those that it sees."
            self.fail("mixing", UNKNOWN, line, says, seen, all_)
        elif other is not None:
            says = "What is mixed for a query is divided by something else than the sum of the weights it was mixed by."
            self.fail("mixing", UNKNOWN, self.operations[other.number].line, says, seen, other.result.ravel())
        elif (one := self._signed(seen)) is not None:
            says = "Features are negative, and so are weights: their sum, which divides the result, may be 0."
            self.fail("mixing", UNKNOWN, one, says)
        else:
            self.note("mixing", "held", "keys and values are multiplied first, so there can be no softmax", line)

    def _signed(self, sums: np.ndarray) -> Line | None:
        """Where features became negative that make weights whose sums are taken, as what divides the result is.

        Random features (Peng et al. 2021) are so, and draw near to weights that are not.
        """
        core, ordered = self.core, np.sort(sums)
        taken = any(x.host.size == sums.size and near(np.sort(x.host, None), ordered) for x in self.operations)
        if not taken or (core.steps[-1][1] >= 0).all():
            return None
        for one in (self.q, self.k):
            made = {self.operations[n].name for n in made_of(self.operations, one.source, to_products=True)}
            if (one.form < 0).any() and not made & {"sin", "cos"}:
                return self.operations[core.mix.number if one.source is None else one.source].line
        return None

    def _divisor(self, sums: np.ndarray) -> Product | None:
        """What divides the result, a product that was not made of it, where that is not these sums."""
        core = self.core
        for number in range(len(self.operations) if (sums > 0).all() else 0):
            one = contracted(self.operations, number)
            if one is None or one.result.size != len(sums) or one.result.ndim > _AXES:
                continue
            # Its axes may lie in another order than the rows.
            orders = [one.result.transpose(axes).reshape(-1) for axes in permutations(range(one.result.ndim))]
            if not any(near(divisor, sums, 1e-3) for divisor in orders):
                divided = [at for at in map(self._divided, orders) if at is not None]
                own = core.mix.number in made_of(self.operations, number)
                if divided and divided[0] is not self.operations[core.mix.number] and not own:
                    return one
        return None

    # Scores that are added up, and what a decoder makes of its context.

    def _keyless(self) -> bool:
        """Scores that do not look at the keys: the same for all of them, or made of something else alone."""
        core = self.core
        raw = core.steps[0][1] if core.place is not None else None
        # Of NaN nothing can be said.
        level = raw is not None and raw.shape[1] > 2 and bool(np.isfinite(raw).any()) and constant(raw, 1, 1e-9)
        level = level and not constant(self.v.form, 1)
        # Values of one number each are some other thing that was given by mistake; and what sums to 1 nowhere may be no
        # weights at all, but a gate or a layer.
        sums = core.normal or any(sums_to_one(self.operations[n].host) for n in core.path)
        if self.v.form.shape[2] < 2 or not sums or not (level or apart(core, self.reach)):
            return False
        line = self.operations[core.scores.number].line
        made = (self.operations[n] for n in made_of(self.operations, core.mix.sources[1], to_products=True))
        if any(one.name in SAMPLES and moving(one, self.data)[1] for one in made) or self._counted():
            # Zhu et al. 2021 (arXiv:2010.04159), Graves 2013 (arXiv:1308.0850)
            self.note("scores", "held", "made of the queries, which say where they look", line)
            return False
        if not level and chooses(core):
            self.note("scores", "not tried", "each position chooses between things of its own", line)
            return False
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
        # What is given to all queries was made for one.
        place = self.core.place
        shared = place is not None and len(np.unique(place, axis=0)) < len(place)
        # Of one and the same positions, several things may be added up that ask nothing, unless pairs are meant.
        alike = all(a.reach & b.reach for a in asked for b in asked if a is not b)
        alike = alike and not (shared and self.intended.get("pairs"))
        if not asking and not alike and not made.joined and len(asked) > 1 and all(part.mapped for part in asked):
            rows = self.core.mix.output.size * made.parts[0].value.shape[made.axis]
            many = shared or self.intended.get("pairs") or any(x.size == rows for x in self.outputs)
            if not many:
                # Perhaps one query is meant, and it was given as many as there are keys.
                self.note("scores", "not tried", "one query for each key, added position by position", line)
                return
            says = "Queries and keys are added position by position, so a query meets one key."
            self.fail("scores", "additive_no_pairwise", line, says)
        # What the values are made of too, such as tokens of one time, asks nothing.
        mixed = made.number in made_of(self.operations, self.core.mix.sources[1])
        bare = not (made.bent or made.meets or mixed or self.odd)
        if bare and asked and (asking or self.failed("scores")):
            says = "Nothing bends the sum of query and key, so the query adds the same to every score."
            # What is joined is added up by what takes both.
            after = (x.line for x in self.operations[made.number :] if made.joined and made.number in x.sources)
            self.fail("scores", "additive_no_tanh", next(after, line), says)

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

    def _split(self, name: str, one: Origin) -> None:
        """Heads that a reshape alone split off: each of them has some positions' numbers, and not its own features."""
        n, length, width = one.form.shape
        whole = one.array
        if n < 2 or length < 2 or width < 2 or whole.ndim < 2:
            # One feature is of no other position.
            return
        step = "split"
        for number in reversed(one.views):
            operation = self.operations[number]
            x = operation.operands[0]
            if x.size != operation.host.size:
                # Pieces of what is packed are no heads.
                continue
            heads = x.shape[-1] // width if x.ndim > 1 and x.shape[-1] % width == 0 else 0
            # The one that takes the flat width apart.
            if x.ndim < 2 or operation.host.shape[-1] == x.shape[-1] or heads < 2 or length not in x.shape[:-1]:
                continue
            flat = one.form / one.factor
            # Where the other axes stay, each position has its own: queries that share their keys lie beside each other.
            kept = heads != length and operation.host.shape[: x.ndim - 1] == x.shape[:-1]
            # Of several in one array, these are a part.
            parts = x.reshape(-1, flat.size) if x.size % flat.size == 0 and not kept else ()
            mine = next((part for part in parts if np.allclose(part, flat.ravel(), rtol=1e-6, atol=1e-12)), None)
            if mine is not None:
                right = mine.reshape(-1, length, heads, width).swapaxes(1, 2).reshape(-1, length, width)
                self.fail(
                    step, "split_view", operation.line,
                    f"The heads of the {name} hold the features of other positions.", right[:, 1], flat[:, 1],
                )  # fmt: skip
            else:
                self.note(step, "held", f"{name}: {heads} heads of {width}", operation.line)
            return

    # From scores to weights.

    # Each step.
