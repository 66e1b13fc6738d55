"""What is hidden: the mask that was given, lengths, words, and what comes later, against the cells that are hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from overt.check.steps.dropped import unused
from overt.check.steps.hidden import hides_rows, hiding, offset_of, readings_of
from overt.check.steps.judged import SUMS
from overt.check.steps.origins import Origin
from overt.check.steps.pipeline import LOW, constant
from overt.check.steps.scaling import Scale
from overt.recorder.flow import GATHERS, masklike
from overt.recorder.operations import Line, Operation
from overt.recorder.products import made_of

# What asks of each row whether it is all True, which then hides, or all False.
_ROWS = {"all": True, "reduce_and": True, "any": False, "reduce_or": False}
LATER = "Every query sees the keys that come after it."


class Masked(Scale):
    """What one attention hides."""

    def _mask(self) -> None:
        core, hidden, dropped = self.core, self.hidden, self._unused()
        nothing = hidden is None or not hidden.any()
        if dropped is not None:
            says = f"The result of {dropped.name} is dropped, so the mask hides nothing."
            self.fail("mask", "not_inplace", dropped.line, says)
        elif nothing and any(self._comes_from(number, "argument") for number in core.path):
            self.note("mask", "not tried", "what was given hid nothing in the scores")
        elif nothing and self.promised and core.scores.queries.shape[1] > 1 and not self.failed("mask"):
            self.fail("causal", "causal_missing", self.softmax_line, LATER)
        elif nothing and not self.failed("mask"):
            self.note("mask", "not tried", "no mask was given")
        if hidden is not None and not nothing:
            self._overflowed()
            cells = self._once(hidden)
            self._hidden_as_said(cells)
            # A mask of keys alone, which all queries are given, stands beside that.
            free = self.promised and self.intended.get("hides keys alone") and not self.failed("mask")
            rows = {core.weights.shape[core.mix.labels[0].index(a)] for a in core.mix.rows} - {1}
            if free and cells.shape[2] in rows and (cells == cells[:, :1]).all() and not cells.all():
                self.fail("causal", "causal_missing", self.softmax_line, LATER)

    def hides_some_by_place(self) -> bool:
        """Whether keys are hidden from some queries alone, or by what was not given."""
        if self.hidden is None or not self.hidden.any():
            return False
        cells = self._batched(self.hidden)
        given = bool(self.hiding) and all(self._comes_from(number, "argument") for number in self.hiding)
        return not given or bool((cells != cells[:, :1]).any())

    def _once(self, hidden: np.ndarray) -> np.ndarray:
        """The cells that are hidden, (batch, queries, keys); once where heads share keys and hide the same."""
        core = self.core
        labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
        cells = hidden.reshape(*core.shape, hidden.shape[-1])
        alike = [axis for axis in map(labels.index, core.mix.rows) if (cells == cells.take([0], axis)).all()]
        if len(core.mix.rows) - len(alike) != 1:
            return self._batched(hidden)
        order = [labels.index(a) for a in core.mix.batch + core.mix.rows if labels.index(a) not in alike]
        cells = cells[tuple(0 if axis in alike else slice(None) for axis in range(cells.ndim))]
        order = [axis - sum(one < axis for one in alike) for axis in order]
        return cells.transpose([*order, cells.ndim - 1]).reshape(-1, *np.array(cells.shape)[[order[-1], -1]])

    def _hidden_as_said(self, cells: np.ndarray) -> None:
        """The cells that are hidden, (batch, queries, keys), against whatever says which these are to be."""
        given = self._arguments()
        self.facts |= {"hidden": int(cells.sum()), "mask made": self._mask_made()}
        # What hides the same from all queries, by a number, has some keys side by side that all of them see.
        seen = np.flatnonzero(~cells[0, 0])
        if (cells == cells[:1, :1]).all() and len(seen) and np.ptp(seen) == len(seen) - 1:
            self.facts["side by side"] = [int(seen[0]), int(seen[-1])]
        self.facts["unseen"] = [int(n) for n in np.flatnonzero(cells.all((0, 1)))]
        compared = self._cast(cells) or self._compare(given, cells) or self._numbers(cells) or self._misplaced(cells)
        compared = compared or self._beside_more(given, cells) or self._whole_rows(cells, given) or self._opened(cells)
        compared = compared or self._own_group(cells)
        self._causal(cells, bool(given))
        told = compared or given or self.failed("causal") or self.failed("mask") or "reach" in self.facts
        blind = cells.shape[1] <= cells.shape[2] and cells.all(2).any() and np.isnan(self.core.weights).any()
        if blind and not told and not any(self._comes_from(n, "argument") for n in self.hiding):
            # Whoever hides all keys by nothing that was given answers for it.
            says = "Some queries see no key, by no mask that was given, and get NaN."
            self.fail("mask", "full_row_nan", self._shaped_at(), says, kind="mistake")
        if not compared and not self.failed("mask"):
            self.note("mask", "held", f"{cells.mean():.0%} of the cells are hidden", self.mask_line)

    def _before(self, given: bool | None = None) -> Iterator[Operation]:
        """What hides first, and what came to it, the latest first; given: of that which was given, or which was not."""
        first = [n for n in self.hiding if given in (None, self._comes_from(n, "argument"))] or self.hiding
        number: int | None = first[0] if first else None
        while number is not None:
            operation = self.operations[number]
            yield operation
            # An array of one number is what is written where something is hidden.
            before = [s for s, x in zip(operation.sources, operation.operands, strict=True)
                      if s is not None and not self.data[s] and masklike(x) and (x != x.flat[:1]).any()]  # fmt: skip
            if given and len(before) > 1:
                before = [s for s in before if self._comes_from(s, "argument")]
            number = before[0] if len(before) == 1 else None

    def _mask_made(self) -> int | None:
        """The line in which what hides first came to hide what it does: turned round or viewed it is the same."""
        line = [operation.line for operation in self._before()][-1:] or [self.mask_line]
        return line[0].number if line[0] else None

    def _repeated_at(self) -> Line | None:
        """Where the mask that was given was repeated for several heads."""
        grown = [(x.host.shape[:1] == y.shape[:1], x.line) for x in [*self._before(given=True)][1:] for y in x.operands
                 if x.host.size > y.size > 1]  # fmt: skip
        # Those heads that are folded into the samples, before what else is longer.
        return min(grown, key=lambda one: one[0], default=(False, self.mask_line))[1]

    def _placed_at(self) -> Line | None:
        """Where what hides, or the numbers that it is made of, last got axes, and so the one along which it does."""
        before = list(self._before(given=True))
        whole = [s for s, x in zip(before[-1].sources, before[-1].operands, strict=True)
                 if s is not None and x.dtype.kind in "iu"] if before else []  # fmt: skip
        before += [self.operations[s] for s in whole[:1]]
        return next((x.line for x in before if 0 < max(y.ndim for y in x.operands) < x.host.ndim), self.mask_line)

    def _lowered_at(self) -> Line | None:
        """Where what is hidden got the very negative number that is added to its scores."""
        low = [x.line for x in self._before(given=True) if x.host.dtype.kind == "f" and (x.host < LOW).any()]
        return low[-1] if low else self.mask_line

    def _shaped_at(self) -> Line | None:
        """Where what hides and was not given got its shape: from ones that hid nothing, or from distances."""
        shaped = [(len(np.unique(x.host)) == 2, x.line) for x in self._before(given=False)
                  if not constant(x.host.astype(float))]  # fmt: skip
        return next((line for two, line in shaped[::-1] if two), shaped[-1][1] if shaped else self.mask_line)

    def _overflowed(self) -> None:
        """Finite numbers whose sum is infinite, and hides: two masks of the lowest number of a dtype."""
        if not any(np.isneginf(x).any() for _, x in self.core.steps):
            return
        for operation in self.operations[: self.core.mix.number]:
            finite = all(x.dtype.kind == "f" and np.isfinite(x).all() for x in operation.operands)
            if operation.name in SUMS and finite and np.isneginf(operation.host).any():
                says = "The lowest numbers of two masks are added, which is -inf."
                self.fail("mask", "mask_finfo_sum", operation.line, says, operation.operands[-1].min(), -np.inf)
                return

    def _arguments(self) -> list[np.ndarray]:
        """Masks among the arguments, as they were when they were first read."""
        found: dict[str, np.ndarray] = {}
        for operation in self.operations:
            for origin, x in zip(operation.origins, operation.operands, strict=True):
                # Zeros alone are room for what comes.
                mask = masklike(x) and (x.dtype.kind == "b" or x.any())
                if origin.startswith("argument") and mask and x.ndim and x.size > 1:
                    found.setdefault(origin, x)
        return list(found.values())

    def _cast(self, cells: np.ndarray) -> bool:
        """Whether an additive mask was turned into booleans, and what was 0 and meant visible is hidden."""
        for operation in self._before(given=True):
            for x in operation.operands:
                low = x.dtype.kind == "f" and x.shape == operation.host.shape and masklike(x) and (x < LOW).any()
                if not low or operation.host.dtype.kind != "b" or not np.array_equal(operation.host, x != 0):
                    continue
                zeros = float((x == 0).mean())
                if abs(cells.mean() - zeros) < 1e-9 and abs(zeros - 0.5) > 1e-9:
                    says = "The zeros of an additive mask, which mean visible, hide."
                    self.fail("mask", "mask_float_as_bool", operation.line, says)
                    return True
        return False

    def _compare(self, given: list[np.ndarray], cells: np.ndarray) -> bool:
        """The mask that was given against the cells that are hidden: its polarity, and whose mask each sample got."""
        N, T, S = cells.shape
        # By itself, or beside a causal mask, which may let the next key in.
        beside = [np.zeros((T, S), bool), *(np.triu(np.ones((T, S), bool), S - T + k) for k in (1, 2))]
        readings = [(mask, seen) for mask in given for seen in readings_of(mask, T, S)]
        readings = [(mask, seen) for mask, seen in readings
                    if len(np.unique(seen.reshape(len(seen), -1), axis=0)) == len(seen)]  # fmt: skip
        fitting = [(mask, len(seen), *way) for mask, seen in readings for way in hiding(seen, cells, beside)]
        mine = self._samples()

        def astray(B: int, samples: list[int]) -> bool:
            return B > 1 and mine is not None and len(set(mine)) == B and samples != mine

        # Of few keys what hides some is what lets others see: where a sample has its own mask, that one is read.
        fitting = [way for way in fitting if not astray(way[1], way[-1])] or fitting
        if fitting:
            mask, B, polarity, number, samples = fitting[0]
            additive = bool((mask.astype(float) < -1e3).any())
            if additive and polarity == "drop":
                says = "The zeros of an additive mask, which mean visible, hide."
                self.fail("mask", "mask_float_as_bool", self.mask_line, says)
                return True
            self._let_in(number == 2, beside[1], cells)
            self._read_as("additive" if additive else polarity)
            folds = ([n // max(N // B, 1) for n in range(N)], [n % B for n in range(N)])
            if astray(B, samples):
                says = "Samples get the masks of other samples."
                self.fail("mask", "mask_fold_order", self._repeated_at(), says, mine, samples)
            elif B == 1 or samples in folds:
                self.note("mask", "held", f"the mask that was given, read as {polarity}", self._lowered_at())
            return True
        # Whole rows may lie beside what is the same in all samples too, such as a window.
        for seen in (seen for mask, seen in readings if mask.ndim == 2 and T == S):
            rows = enumerate([*beside, np.asarray(cells.all(0))])
            number = next((i for i, more in rows if self._on_queries(~seen[:, 0], cells, more)), -1)
            if number >= 0:
                self._let_in(number == 2, beside[1], cells)
                self.fail("mask", "pad_on_query", self._placed_at(), "Whole queries are hidden, and no keys.")
                return True
        return False

    def _beside_more(self, given: list[np.ndarray], cells: np.ndarray) -> bool:
        """The same where other keys, which nothing hides, stand before those that a mask is of, or behind them."""
        for mask in given:
            more = cells.shape[2] - mask.shape[-1]
            sides = ((cells[..., :more], cells[..., more:]), (cells[..., -more:], cells[..., :-more]))
            if more > 0 and any(not other.any() and self._compare([mask], mine) for other, mine in sides):
                return True
        return False

    def _numbers(self, cells: np.ndarray) -> bool:
        """The cells that are hidden against the lengths, or the words, that were given."""
        N, _, S = cells.shape
        lengths: dict[str, np.ndarray] = {}
        words: dict[str, np.ndarray] = {}
        # Words that are joined before they are compared are given as well.
        made = [("", x) for operation in self._before(given=True) for x in operation.operands if x.ndim > 1]
        for operation in self.operations:
            given = zip(operation.origins, operation.operands, strict=True)
            for origin, x in [*(one for one in given if one[0].startswith("argument")), *made]:
                if x.dtype.kind not in "iu" or not x.size:
                    continue
                if x.ndim == 1 and x.size > 1 and x.min() > 0 and x.max() <= S and N % len(x) == 0:
                    lengths.setdefault(origin, x[:, None])
                elif x.ndim > 1 and x.shape[-1] == S and N * S % x.size == 0 and len(np.unique(x)) > 2:
                    words.setdefault(origin, (x != 0).reshape(-1, S))
        counts = {origin: np.arange(S) < x for origin, x in lengths.items()}
        for held, says in (
            (counts, "The positions before the length are hidden, and those behind it seen."),
            (words, "All words but those that are 0 are hidden."),
        ):
            told = self._compare(list(held.values()), cells) or any(self._in_order(x, cells) for x in held.values())
            if told:
                self.facts["counted"] = self.facts.pop("polarity", None) != "drop"
                if not self.facts["counted"]:
                    self.fail("mask", "mask_inverted", self.mask_line, says)
                return True
        for x in lengths.values():
            # Of what has one more position than was given, a length may be another.
            for by, says in ((1, "the position behind it is seen too"), (-1, "the last one before it is hidden too")):
                if x.max() == S and self._rows(np.arange(S) < x + by, cells) == "keep":
                    self.facts["past the length"] = says
        return False

    def _in_order(self, seen: np.ndarray, cells: np.ndarray) -> bool:
        """Whether rows of what may be seen (samples, S), some of them alike, are those of the heads of each sample."""
        polarity = self._rows(seen, cells)
        if polarity is not None:
            self._read_as(polarity)
            self.note("mask", "held", f"the mask that was given, read as {polarity}", self._lowered_at())
        return polarity is not None

    def _read_as(self, polarity: str) -> None:
        line = self._lowered_at()
        self.facts |= {"polarity": polarity, "read at": line.number if line else None}

    def _rows(self, seen: np.ndarray, cells: np.ndarray) -> str | None:
        """Whether all queries of each sample, with several heads or not, may see these keys, or those that are not."""
        rows = np.repeat(seen, len(cells) // len(seen), axis=0)[:, None]
        return next((way for way, hides in (("keep", ~rows), ("drop", rows)) if (cells == hides).all()), None)

    def _misplaced(self, cells: np.ndarray) -> bool:
        """Whether there is a mask for each sample, and heads of a sample have those of others."""
        mine, N = self._samples(), len(cells)
        B = len(set(mine or ()))
        flat = cells.reshape(N, -1)
        if not any(self._comes_from(number, "argument") for number in self.hiding):
            # What nobody gave is the same for all samples, and may be another in each window.
            return False
        if mine is None or B < 2 or N % B or N // B in (1, B) or len(np.unique(flat, axis=0)) != B:
            return False
        theirs = next((w for w in ([n % B for n in range(N)], [n * B // N for n in range(N)])
                       if all((flat[n] == flat[w.index(w[n])]).all() for n in range(N))), mine)  # fmt: skip
        if theirs == mine or len({(a, b) for a, b in zip(mine, theirs, strict=True)}) == B:
            return False
        says = "Samples get the masks of other samples."
        self.fail("mask", "mask_fold_order", self._repeated_at(), says, mine, theirs)
        return True

    def _let_in(self, found: bool, right: np.ndarray, cells: np.ndarray) -> None:
        """Whether beside what was given the next key is seen, where none may be."""
        if found and self.intended.get("causal"):
            says = "A query sees the next key."
            self.fail("causal", "causal_off_by_one", self._shaped_at(), says, right, cells[0])

    def _on_queries(self, padded: np.ndarray, cells: np.ndarray, more: np.ndarray) -> bool:
        """Whether the rows of padded positions are hidden, beside some cells of all, and not their columns."""
        N = len(cells)
        per = N // len(padded) if N % len(padded) == 0 else 0
        return (
            bool(per)
            and bool((cells & ~more).any())
            and any(
                all(np.array_equal(cells[n], np.repeat(p[:, None], cells.shape[2], 1) | more) for n, p in rows)
                for flip in (padded, ~padded)
                for rows in ([(n, flip[n // per]) for n in range(N)], [(n, flip[n % len(padded)]) for n in range(N)])
            )
        )

    def _whole_rows(self, cells: np.ndarray, given: Sequence[np.ndarray]) -> bool:
        """Whether what was given hides whole queries and no keys, where both are the same positions."""
        queries, keys, _ = self.streams()
        among = cells.shape[1] == cells.shape[2] and bool(queries & keys)
        rows = (cells == cells[:, :, :1]).all() and 0 < cells.mean() < 1
        # What was given as it hides was compared before: this is a part of that, such as the words beside an image.
        part = bool(given) and all(x.ndim < 3 and x.shape[-1] < cells.shape[2] for x in given)
        # Sequences may have more axes than one before them.
        part = part or any(x.ndim > 2 and hides_rows(x, cells[:, :, 0]) for x in given)
        if not (among and rows and part and all(self._comes_from(number, "argument") for number in self.hiding)):
            return False
        self.fail("mask", "pad_on_query", self._placed_at(), "Whole queries are hidden, and no keys.")
        return True

    def _opened(self, cells: np.ndarray) -> bool:
        """Whether rows that are all of one value, and get the other as if they saw nothing, see by that value."""
        N, T, S = cells.shape
        made = {n for number in self.hiding for n in made_of(self.operations, number)}
        for number in sorted(made):
            operation = self.operations[number]
            hides, x = _ROWS.get(operation.name), next(iter(operation.operands), np.zeros(0))
            # What becomes of these rows is the array again, but for them.
            said = {number, *(n for n in made if self.operations[n].sources == (number,))}
            kept = any(said & {*self.operations[n].sources} and self.operations[n].host.shape == x.shape for n in made)
            of_rows = x.dtype.kind == "b" and x.size and operation.host.size * S == x.size and x.size % (T * S) == 0
            if hides is None or not kept or not of_rows or N * T * S % x.size:
                continue
            rows = np.repeat(x.reshape(-1, T, S), N * T * S // x.size, axis=0)
            mixed = rows.any(2) & ~rows.all(2)
            if mixed.any() and ((rows == cells)[mixed] != hides).all():
                says = f"Rows that are all {hides} are opened, and {hides} is what is seen."
                self.fail("mask", "mask_inverted", operation.line, says)
                return True
        return False

    def _own_group(self, cells: np.ndarray) -> bool:
        """Whether positions that are of one group are hidden from each other, by nothing that was given.

        Where a sequence is one group as a whole, all of it is, and what is meant is to hide the others.
        """
        square = cells.shape[1] == cells.shape[2] and cells[:, np.eye(cells.shape[1], dtype=bool)].all()
        whole = cells.all((1, 2))
        if not square or not whole.any() or whole.all() or any(self._comes_from(n, "argument") for n in self.hiding):
            return False
        # What is of one group with another hides as many as that one and both together do.
        some = cells.astype(np.float32)
        both, each = some @ some.swapaxes(1, 2), some.sum(2)
        if not np.array_equal((both == each[:, None]) & (both == each[:, :, None]), cells):
            return False
        says = "Positions of one group are hidden from each other, and those of others are seen."
        self.fail("mask", "mask_inverted", self._shaped_at(), says)
        return True

    def _causal(self, cells: np.ndarray, masked: bool) -> None:
        cells = cells[:, :, : cells.shape[2] - self._fill(cells)]
        _, T, S = cells.shape
        ahead = np.arange(S)[None] - np.arange(T)[:, None]
        # Of how many queries and keys these are some, and how much later their first query is than their first key.
        late, queries, keys = self._piece() or (0, T, S)
        right = ahead > keys - queries + late
        if T < 2:
            first = late == 0 and queries > 1
            if not masked and not first and S > 2 and np.array_equal(cells, np.broadcast_to(ahead > 0, cells.shape)):
                says = "The one query sees the first key alone."
                self.fail("causal", "causal_top_left", self._shaped_at(), says, right, cells[0])
            return
        if self._begun(ahead, cells):
            return
        for one in cells:
            if not one.any() or one.all():
                continue
            found = offset_of(one, ahead)
            if found is not None:
                offset, wanted = found - late, keys - queries
                self.facts["causal"] = offset
                if offset == wanted or masked or (offset == wanted - 1 and "one hidden" in self.facts):
                    self.note("causal", "held", "a query sees no later key", self.mask_line)
                elif queries == keys and offset > wanted + 1 and not self.intended.get("causal"):
                    # So many of the next ones may be meant to be seen.
                    self.facts |= {"reach": None, "ahead": offset, "mask made": self._made_at(T, S)}
                elif (queries == keys and not (late and found == 0)) or (
                    # What is as long as this piece may be a sequence of its own.
                    abs(wanted) > 1 and abs(offset - wanted) == 1 and found != S - T
                ):
                    says = f"A query sees {'the next key' if offset > wanted else 'not its own position'}."
                    self.fail("causal", "causal_off_by_one", self._shaped_at(), says, right, one)
                elif 0 in (offset, found):
                    own = self._own_keys()
                    own = self._behind_kept() if own is None else own
                    blind = own is not None and bool(own.any(1).all() and (self.hidden & own).any())
                    says = "A query does not see itself." if blind else "The first query stands at the first key."
                    kind = "mistake" if blind or self.intended.get("last queries") else None
                    if own is not None and own.any(1).all() and not blind and not self._sees_later():
                        # What lies behind was not written yet.
                        self.note("causal", "held", "a query sees no later key", self.mask_line)
                    else:
                        self.fail("causal", "causal_top_left", self._shaped_at(), says, kind=kind)
                elif found < S - 1 and self.intended.get("causal") and self._sees_later():
                    says = "A query sees the key of a later one."
                    self.fail("causal", "causal_off_by_one", self._shaped_at(), says, right, one)
                return
            back, on = late - int(ahead[~one].min()), int(ahead[~one].max()) - late
            band = min(back, on) >= 0 and max(back, on) < S - 1
            if band and np.array_equal(one, (ahead > late + on) | (ahead < late - back)):
                self.facts |= {"reach": back, "ahead": on, "mask made": self._made_at(T, S)}
                if queries == keys and on == 1 and self.intended.get("causal"):
                    says = "A query sees the next key."
                    self.fail("causal", "causal_off_by_one", self._shaped_at(), says, right, one)
                return
            # Where as many keys as queries are ever seen, these are the first, and what lies behind is not written yet.
            alone = T > 2 and not one[:, :T].all(0).any() and one[:, T:].all()
            if alone and S > T and np.array_equal(one[:, :T], ahead[:, :T] > 1):
                self.facts["causal"] = 1
                self.fail(
                    "causal", "causal_off_by_one", self._shaped_at(), "A query sees the next key.", ahead > 0, one
                )
                return
            # One cell may be hidden by chance.
            if not masked and offset_of(~one, ahead) is not None and one.any(1).sum() > 1:
                says = "The past is hidden, and not the future."
                self.fail("causal", "mask_inverted", self.mask_line, says, right, one)
                return
        if T == S == keys and cells[:, right].all() and not cells[:, ahead == 0].all():
            # Beside padding.
            self.facts.setdefault("causal", 0)

    def _begun(self, ahead: np.ndarray, cells: np.ndarray) -> bool:
        """Whether the queries of each sample begin at the key whose number was given for it, or at the next one."""
        found = [offset_of(one, ahead) for one in cells]
        offsets = np.array([-1 if offset is None else max(offset, -1) for offset in found])
        for operation in self.operations:
            for origin, x in zip(operation.origins, operation.operands, strict=True):
                given = origin.startswith("argument") and x.dtype.kind in "iu" and x.ndim == 1 < x.size
                if not given or len(cells) % x.size or np.isin(offsets, (-1, cells.shape[2] - 1)).any():
                    continue
                by = {*(offsets - np.repeat(x, len(cells) // x.size)).tolist()}
                if by == {0} or (by == {1} and np.ptp(x)):
                    self.facts["causal"] = int(offsets[0])
                    if by == {0}:
                        self.note("causal", "held", "a query sees no key behind its own, where it was said to be", None)
                    else:
                        self.fail("causal", "causal_off_by_one", self._shaped_at(), "A query sees the next key.")
                    return True
        return False

    def _sees_later(self) -> bool:
        """Whether a key is seen that is of the place of a later query, as where others lie behind all of these."""
        own = self._own_keys()
        if own is None or self.hidden is None:
            return False
        of, seen = self._batched(own) > 0, ~self._batched(self.hidden)
        later = np.logical_or.accumulate(of[:, ::-1], axis=1)[:, ::-1] & ~of
        return bool((of.sum(2) == 1).all() and (later & seen).any())

    def _behind_kept(self) -> np.ndarray | None:
        """Which key, of rows × keys, is of the place that a query is of, where as many as there are stand last."""
        scores = self.core.scores
        n, T, S = len(scores.queries), scores.queries.shape[1], scores.keys.shape[1]
        joined = None if self.k.source is None else self.operations[self.k.source]
        if joined is None or joined.name not in GATHERS or len(joined.operands) != 2:
            return None
        kept, new = (x.shape for x in joined.operands)
        along = [axis for axis, (one, two) in enumerate(zip(kept, new, strict=True)) if (one, two) == (S - T, T)]
        if not along or S == 2 * T or joined.host.shape[along[0]] != S:
            return None
        cells = self._laid(np.broadcast_to(np.eye(T, S, S - T), (n, T, S)))
        return None if cells is None else cells > 0

    def _made_at(self, T: int, S: int) -> int | None:
        """The line where what lies too far back came to differ from the query's own place."""
        made = [x.line for x in self._before(given=False) if x.host.ndim > 1 and x.host.shape[-2:] == (T, S)
                and (x.host[..., -1, 0] != x.host[..., -1, -1]).any()]  # fmt: skip
        line = made[-1] if made else self.mask_line
        return line.number if line else None

    def _fill(self, cells: np.ndarray) -> int:
        """How many of the last keys are zeros that the first query does not see: they fill up a block."""
        keys, unseen = self.core.scores.keys, np.asarray(cells[:, 0].all(0))
        if keys.shape[1] != len(unseen) or unseen.all():
            return 0
        return int((~keys.any((0, 2)) & unseen)[::-1].argmin())

    def _piece(self) -> tuple[int, int, int] | None:
        """Of queries that are some of more: how much later their first is than the first key, and all of both."""
        (first, queries), (start, keys) = self._run_of(self.q), self._run_of(self.k)
        return (first - start, queries, keys) if queries > self.q.form.shape[1] and keys else None

    @staticmethod
    def _run_of(one: Origin) -> tuple[int, int]:
        """Where the positions begin in what they were taken from one after another, and its length; 0 if unknown."""
        at = one.places
        along = (
            [] if at is None else [n for n, c in enumerate(at) if np.ptp(c, 1).any() and not np.ptp(c, (0, 2)).any()]
        )
        if at is None or len(along) != 1 or (np.diff(at[along[0]][0, :, 0]) != 1).any():
            return 0, 0
        return int(at[along[0]][0, 0, 0]), one.array.shape[along[0]]

    def _unused(self) -> Operation | None:
        """A result as large as the scores that nobody used, between scores and mixing."""
        core = self.core
        derived = {core.scores.number}
        for i in range(core.scores.number + 1, len(self.operations)):
            if derived & set(self.operations[i].sources):
                derived.add(i)
        for i, op in unused(self.operations, self.outputs, self.data):
            # What is broadcast to more is lost all the same.
            wanted = op.host.size % core.scores.result.size == 0 and i in derived
            if core.scores.number < i < core.mix.number and wanted:
                return op
        return None
