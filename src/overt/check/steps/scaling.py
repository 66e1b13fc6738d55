"""The scale of scores: what they are multiplied by in all, against 1/√d, and where any number is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as product_of

import numpy as np

from overt.check.steps import pipeline
from overt.check.steps.judged import UNKNOWN
from overt.check.steps.origins import PRODUCTS, Origin, behind, constant_over, followed
from overt.check.steps.turning import turn
from overt.check.steps.walking import Walk
from overt.recorder.edges import EDGES
from overt.recorder.operations import Line
from overt.recorder.products import Product, contracted, made_of, product


class Scale(Walk):
    """The scale of one attention."""

    def _scale(self) -> None:
        core = self.core
        width = core.scores.width
        total, lines = self.total, self.scale_lines
        before = [self._before_turn(one) for one in (self.q, self.k)]
        hidden = [self._before_hidden(one) for one in (self.q, self.k)]
        for one in filter(None, (*before, *hidden)):
            total, lines = total * one.factor, [*one.lines, *lines]
        if abs(total - 1) < 2e-3:
            matrices = self._of_matrices([b or one for b, one in zip(before, (self.q, self.k), strict=True)])
            total, lines = total * matrices[0], [*matrices[1], *lines]
        line = next((x for x in lines[::-1] if x), None) or self.operations[core.scores.number].line
        self.facts |= {"scale": total, "scored width": width}
        # Queries that are learned are several; one such vector is a direction.
        given = core.two or core.scores.queries.shape[1] > 1
        if self.sum is not None and not core.two:
            self.note("scale", "held", "an additive score needs no 1/√d", line)
            return
        if not given or core.outer or width < 2:
            self.note("scale", "not tried", "the score is no product of two", line)
            return
        if self._by_pairs():
            self.note("scale", "not tried", "what is scored was made of queries and keys before, pair by pair", line)
            return
        # What is turned by its positions is put together of features of one of them.
        if any(len(one.along or [0]) > 1 for one, turned in zip((self.q, self.k), before, strict=True) if not turned):
            if len(core.scores.summed) > 1 and abs(total * width - 1) < 2e-3 and not self.intended.get("by width"):
                says = f"The sums of {width} products are divided by {width}, and not by its root."
                self.fail("scale", "scale_d", line, says, width**-0.5, total)
                return
            self.note("scale", "not tried", "the numbers that are summed belong to several positions", line)
            return
        owned = self._widths(parameters=True)
        if owned and width > 2 and not any(n % width == 0 for n in owned):
            why = f"{width} numbers are summed that are no features, as in attention of channels"
            self.note("scale", "not tried", why, line)
            return
        for name, one in (("queries", self.q), ("keys", self.k)):
            if self._across(one):
                says = f"The {name} are normed over another axis than that of their features."
                self.fail("norm", UNKNOWN, self._norm_line(one), says)
                return
        if self._unit() or self.learned or self.sum is not None:
            self.note("scale", "held", "cosines, a learned scale or an additive score need no 1/√d", line)
            return
        want = width**-0.5
        if total < 0:
            says = f"The scores are multiplied by {total:.4g}, so the least alike get the largest weights."
            self.fail("scale", UNKNOWN, line, says, want, total)
            return
        if all(self._normed(source) for source in core.scores.sources) and abs(total * width**0.5 - 1) > 2e-3:
            self.note("scale", "not tried", "queries and keys are normed, and then any scale may be meant", line)
            return
        one_asks = core.scores.queries.shape[1] == 1
        alone = self._memory() or self._bags() or (one_asks and bool(self.intended.get("reads memories")))
        n = core.scores.queries.shape[0]
        heads = {n // b for b in range(1, n + 1) if n % b == 0 and n // b > 1}
        widths = {width * h for h in heads} & self._widths()
        own = [one.array.shape[-1] for one in (self.q, self.k) if one.along in (None, [one.array.ndim - 1])]
        widths |= {w for w in own if w != width}
        several = {h for h in heads if width * h in widths} | self._headed()
        # What one head is projected from is as wide as all of them.
        widths |= {made.width for made in map(self._projected, (self.q, self.k)) if made} - {width}
        lengths = {core.scores.queries.shape[1], core.scores.keys.shape[1], *self._positions(self.q, self.k)}
        self.facts["scale may be"] = fits = pipeline.scale_mistakes(total, width, several, widths, lengths)
        mistake = next(iter(fits), None)
        meant = [x for x in lengths if x > 1 and abs(total * x**0.5 - 1) < 2e-3]
        if mistake == "scale_seqlen" and any(n % x == 0 for n in owned for x in meant):
            mistake = None
        if mistake == "":
            self.note("scale", "held", f"1/√{width}", line)
        elif any(abs(total / x - 1) < 1e-4 for n in self.intended.get("scales", ()) for x in (n, 1 / n, n**-0.5)):
            self.note("scale", "held", "as a configuration says", line)
        elif any(abs(total * n**0.5 - 1) < 1e-3 for n in self._own_widths(core.scores)):
            self.note("scale", "held", "1/√ of the width before each head's matrix", line)
        elif self.several and any(abs(total * (n * width) ** 0.5 - 1) < 1e-3 for n in (2, 3)):
            self.note("scale", "held", f"1/√{width} shared with other terms (He et al. 2021)", line)
        elif "term" in self.facts and any(abs(total * n**0.5 - 1) < 1e-3 for n in self._joint_widths()):
            self.note("scale", "held", "one over the root of the widths of all terms together", line)
        elif mistake is None and self.bent is not None and self._uncapped(self.bent[0], total / self.bent[0], want):
            says = f"What tanh made of the scores divided by {want / self.bent[0]:.4g} is not multiplied by that again."
            self.fail("softcap", UNKNOWN, self.bent[1], says, want, total)
        elif mistake is None:
            # Any number may be meant, but not any power of the width.
            self.facts["odd scale"] = None if line is None else {"scale": total, "file": line.file, "line": line.number}
            self.note("scale", "not tried", f"scores are multiplied by {total:.4g}; 1/√{width} is {want:.4g}", line)
        elif mistake == "scale_d" and self.intended.get("by width"):
            self.note("scale", "held", "1/d, as is said", line)
        elif mistake == "scale_missing" and self.intended.get("unscaled"):
            self.note("scale", "held", "there is none, as is said", line)
        elif mistake == "scale_missing" and self._scaled_before():
            self.note(
                "scale", "not tried", "there may be one under a condition, or what uses it in its file scales", line
            )
        elif not core.two and mistake in ("scale_missing", "scale_seqlen"):
            self.note("scale", "not tried", "queries that are learned may hold a scale", line)
        elif mistake == "scale_missing" and "term" in self.facts:
            self.note("scale", "not tried", "other terms of the queries and keys are part of the scores", line)
        elif mistake == "scale_missing" and self.facts.get("learned bias"):
            self.note("scale", "not tried", "beside a learned bias the scale may lie in the parameters (T5)", line)
        elif mistake == "scale_missing" and self.operations[core.mix.number].detail == "logarithms":
            self.note("scale", "not tried", "a choice by its logarithms (Vinyals et al. 2015) has no scale", line)
        elif mistake == "scale_missing" and (alone or self._pixels()):
            why = (
                "dot scores of memories (Sukhbaatar, Luong et al. 2015) and of pixels (Wang et al. 2018) have no scale"
            )
            self.note("scale", "not tried", why, line)
        else:
            if mistake == "scale_missing" and any(self.operations[n].name == "tanh" for n in core.path):
                # What caps divides and multiplies, and scales nothing.
                line = self.operations[core.scores.number].line
            says = f"The scores are multiplied by {total:.4g}; 1/√{width} is {want:.4g}."
            self.fail("scale", mistake, line, says, want, total)

    def _scaled_before(self) -> bool:
        """Whether what uses this may have scaled it: by a norm, only what is multiplied with no matrix here."""
        mapped = all(self._projected(one) is not None for one in (self.q, self.k))
        return bool(self.intended.get("scaled")) and not (mapped and self.intended["scaled"] == "norm")

    @staticmethod
    def _uncapped(before: float, after: float, want: float) -> bool:
        """Whether what divided scores before they were bent is missing after that, or divides once more."""
        return any(abs(after / x - 1) < 1e-6 for x in (1.0, before / want))

    def _joint_widths(self) -> set[int]:
        """The widths of the scores and of another product of the same form, which may be a term of them, or of all."""
        core, others = self.core, list[Product]()
        for number, operation in enumerate(self.operations[: core.mix.number]):
            if number != core.scores.number and operation.host.shape == core.scores.result.shape:
                made = contracted(self.operations, number)
                others += [made] if made is not None else []
        both = product_of(self._own_widths(core.scores), {n for one in others for n in self._own_widths(one)})
        return {*map(sum, both), core.scores.width + sum(one.width for one in others)} if others else set()

    def _own_widths(self, scores: Product) -> set[int]:
        """The width of scores, and that of queries, or keys, before each head's were mapped by a matrix of its own.

        Keys that are never made have their matrix in the queries (DeepSeek-AI 2024, multi-head latent attention).
        """
        found = {scores.width}
        for number in scores.sources:
            made = self._product_behind(number)
            moved = [s for s in made.sources if s is not None and self.data[s]] if made is not None else []
            if made is not None and made.batch and len(moved) == 1 and self._product_behind(moved[0]) is not None:
                found.add(made.width)
        return found

    def _product_behind(self, number: int | None) -> Product | None:
        """The product that made something, behind views."""
        number = behind(self.operations, number)
        return None if number is None else contracted(self.operations, number)

    def _of_matrices(self, sides: Sequence[Origin]) -> tuple[float, list[Line | None]]:
        """What the matrices of queries and keys were multiplied by first, which those of the values were not; where."""
        arrays = [operation.host.ndim > 0 for operation in self.operations]

        def factors(one: Origin) -> list[Origin]:
            made = self._projected(one)
            every = zip((made.left, made.right), made.sources, strict=True) if made else ()
            return [followed(self.operations, arrays, x, s, x) for x, s in every if s is not None and x.ndim == 2]

        own = [found.factor for found in factors(self.v)]
        mine = [found for one in sides for found in factors(one) if found.factor not in own]
        return float(np.prod([found.factor for found in mine])), [line for found in mine for line in found.lines]

    def _before_turn(self, one: Origin) -> Origin | None:
        """What queries or keys were before they were turned by their positions, if they were."""
        made = turn(self.operations, self.data, one)
        if made is None or made.before is None:
            return None
        x = self.operations[made.before].host
        return self._followed(x, made.before, x)

    def _before_hidden(self, one: Origin) -> Origin | None:
        """What queries or keys were before those of some positions became 0, if some did."""
        if one.source is None:
            return None
        operation = self.operations[one.source]
        for x, source in zip(operation.operands, operation.sources, strict=True):
            if source is not None and self.data[source] and x.shape == operation.host.shape and x.dtype.kind == "f":
                kept = operation.host == x
                if kept.any() and not kept.all() and (operation.host[~kept] == 0).all():
                    return self._followed(x, source, x)
        return None

    def _across(self, one: Origin) -> bool:
        """Whether everything along another axis than that of the features has the norm 1, and features have not."""
        x, along = one.array, one.along
        if along is None or len(along) > 1:
            x, along = one.form / (one.factor or 1), [2]
        norms = {axis: (x**2).sum(axis) for axis, length in enumerate(x.shape) if length > 2 or axis in along}
        own = norms.pop(along[0])
        return any(np.allclose(n, 1, rtol=1e-3) for n in norms.values()) and not np.allclose(own, 1, rtol=1e-2)

    def _norm_line(self, one: Origin) -> Line | None:
        """Where what was followed back to was made."""
        return None if one.source is None else self.operations[one.source].line

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

    def _headed(self) -> set[int]:
        """How many heads the queries have, where these have an axis behind that of the samples."""
        at = self.q.places or []
        own = [c for c in at if constant_over(c) and len(np.unique(c)) > 1]
        return {len(np.unique(own[-1]))} if len(own) > 1 else set()

    def _positions(self, *sides: Origin) -> Iterator[int]:
        """How many positions there are of what queries or keys are a part of."""
        for one in sides:
            for axis, at in enumerate(one.places or ()):
                if (at != at[:, :1]).any() and axis not in (one.along or ()):
                    yield one.array.shape[axis]

    def _by_pairs(self) -> bool:
        """Whether all that asks lies on the side of the keys, as what was made of each pair does."""
        core, scores = self.core, self.core.scores
        if core.place is None or not core.mix.rows:
            return False
        at = np.unravel_index(core.place.reshape(*core.shape, -1), scores.result.shape)
        mine = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
        beside = [c for a, c in zip(scores.labels[2], at, strict=True) if a in scores.columns]
        beside = [c for c in beside if (c == c[..., :1]).all()]
        return all(any((c != c.take([0], mine.index(a))).any() for c in beside) for a in core.mix.rows)

    def _memory(self) -> bool:
        """Whether another's states are mixed as they are, by scores of these same states: Luong's dot and general."""
        # How long each is makes none of them.
        counts = {o for op in self.operations for o, x in zip(op.origins, op.operands, strict=True)
                  if x.ndim < 2 and x.dtype.kind in "iu"}  # fmt: skip
        queries, keys, values = (some - counts for some in self.streams())
        whole = self.v.form.shape[-1] == self.v.array.shape[-1]
        if self.v.source is not None:
            # Made here, as by an encoder, but mapped by no matrix, and then not both of the others are.
            mapped = [one.source is not None and self.operations[one.source].name in PRODUCTS
                      for one in (self.q, self.k, self.v)]  # fmt: skip
            of_values = self.v.source in made_of(self.operations, self.core.scores.sources[1])
            whole = whole and of_values and not mapped[2] and not all(mapped[:2])
        # Queries may be made of these states too, as a decoder's first state is, but not of them alone; one query may.
        apart = not values & queries or bool(queries - values) or self.core.scores.queries.shape[1] == 1
        return whole and len(values) == 1 and values <= keys and apart

    def _bags(self) -> bool:
        """Whether one query meets embeddings of words, or sums of them, that no matrix maps: a memory network's."""
        sources = [self.core.scores.sources[1], self.core.mix.sources[1]]
        # What is gathered by the ends of edges are nodes, and no words.
        graph = any(operation.detail == EDGES for operation in self.operations)
        if self.core.scores.queries.shape[1] > 1 or None in sources or graph:
            return False
        open_, seen, words = list(sources), set[int](), False
        while open_:
            number = open_.pop()
            if number is None or number in seen:
                continue
            seen.add(number)
            operation = self.operations[number]
            taken = [*zip(operation.operands, operation.sources, operation.origins, strict=True)]
            if any(x.ndim and x.dtype.kind in "iu" for x, _, _ in taken):
                # What rows are taken of by numbers is a table of these, whoever gives it.
                taken = [one for one in taken if one[0].dtype.kind != "f"]
            open_ += [source for _, source, _ in taken]
            given = [x for x, _, origin in taken if origin.startswith("argument")]
            owned = any(o.startswith("parameter") for o in operation.origins)
            words = words or bool(given)
            if any(x.dtype.kind not in "iu" for x in given) or (owned and product(self.operations, number) is not None):
                return False
        return words

    def _features(self) -> bool:
        """Whether products are summed over the axis that features have, and not over positions."""
        for one in (self.q, self.k):
            along = one.along
            if along is not None:
                made = None if one.source is None else self.operations[one.source].name
                if along != [1 if (made or "").startswith("conv") else one.array.ndim - 1]:
                    return False
        return True

    def _pixels(self) -> bool:
        """Whether queries and keys are made by convolutions, also pooled, and have no heads, as in non-local blocks.

        Each row, or each column, of an image may be by itself (Huang et al. 2019).
        """
        for one in (self.q, self.k):
            number = one.source
            while number is not None and not (made := self.operations[number]).name.startswith("conv"):
                before = {s for s in made.sources if s is not None and self.data[s]}
                number = before.pop() if len(before) == 1 and made.name not in PRODUCTS else None
            if number is None:
                return False
            image = self.operations[number].host.shape
            if len(one.form) not in {n * image[0] for n in (1, *image[2:])}:
                return False
        return True

    def _widths(self, parameters: bool = False) -> set[int]:
        """Widths of arguments and parameters, or of these alone."""
        return {
            n
            for operation in self.operations[: self.core.mix.number + 1]
            for x, origin in zip(operation.operands, operation.origins, strict=True)
            if origin.startswith("parameter" if parameters else "") and origin
            for n in (x.shape if origin.startswith("parameter") else x.shape[-1:])
        }
