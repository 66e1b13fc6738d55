"""What becomes of the mixed values of several heads: where they lie side by side."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from operator import mul

import numpy as np

from overt.check.steps.masking import Masked
from overt.check.steps.origins import PRODUCTS
from overt.recorder.operations import Operation


class Merged(Masked):
    """How the heads of one attention are merged."""

    def _merge(self) -> None:
        """What becomes of the mixed values: heads that a reshape alone merges."""
        core = self.core
        mixed = core.mix.output
        n, length, width = mixed.shape
        self.note("mixing", "held", "weights times values, summed over the keys", self.operations[core.mix.number].line)
        if n < 2 or length < 2 or not mixed.any():
            # Zeros lie anywhere.
            return
        same = {core.mix.number}
        for i in range(core.mix.number + 1, len(self.operations)):
            op = self.operations[i]
            if not (same & set(op.sources)) or op.host.size != mixed.size or op.name in PRODUCTS:
                continue
            same.add(i)
            x, axis = op.operands[0], self._merged_along(op)
            heads = op.host.shape[axis] // width if op.host.ndim and op.host.shape[axis] % width == 0 else 0
            if self._in_channels(op, mixed):
                right = mixed.swapaxes(1, 2).reshape(-1, length)
                self.fail("merge", "merge_view", op.line, "A channel holds features of several positions.",
                          right[:1], op.host.reshape(-1, length)[:1])  # fmt: skip
                return
            if heads < 2 or x.shape[axis] == op.host.shape[axis] or length not in op.host.shape:
                continue
            # Of queries that see nothing there is NaN.
            same_numbers = partial(np.allclose, rtol=1e-6, atol=1e-12, equal_nan=True)
            if not same_numbers(np.sort(op.host.ravel()), np.sort(mixed.ravel())):
                return
            # Heads that share their keys are rows, and may stand beside their width.
            sides = [core.mix.result.shape[core.mix.labels[2].index(a)] for a in core.mix.rows[:0:-1]]
            # Where no position is left, a sample has all of its heads in one row.
            whole = [core.mix.result.shape[core.mix.labels[2].index(a)] for a in core.mix.batch[::-1]]
            alone = core.mix.rows and heads in [length * n for n in (1, *accumulate(whole, mul))]
            right = mixed.reshape(-1, heads, length, width).swapaxes(1, 2) if n % heads == 0 else mixed
            alike = [same_numbers(op.host.ravel(), x.ravel()) for x in (mixed, right)]
            if axis < -1:
                self._folded(i, width, axis)
            elif alone and alike == [True, False] and op.host.ndim > 2 and op.host.shape[-2] == length:
                # As many positions as heads: nobody knows which these are.
                self.facts["positions or heads"] = True
            elif alone or heads in accumulate(sides, mul):
                self.note("merge", "held", "all heads side by side", op.line)
            elif alike == [True, False]:
                self.fail("merge", "merge_view", op.line, "A row of the output holds the heads of other positions.",
                          right.reshape(-1, heads * width)[:1], op.host.reshape(-1, heads * width)[:1])  # fmt: skip
            elif heads < n:
                self._folded(i, width, axis)
            else:
                self.note("merge", "held", "all heads side by side", op.line)
            return

    def _in_channels(self, op: Operation, mixed: np.ndarray) -> bool:
        """Whether a reshape alone makes features of heads the channels, before all positions, which lay before them."""
        n, length, width = mixed.shape
        x, y = op.operands[0], op.host
        if length == width or width < 2 or x.shape[-1] != width or not np.array_equal(y.ravel(), mixed.ravel()):
            return False
        behind = enumerate(accumulate(y.shape[:0:-1], mul), 2)
        # As many channels as several heads have features, of which there are no more.
        return any(many == length and y.shape[-at] in range(2 * width, n * width + 1, width) for at, many in behind)

    def _merged_along(self, op: Operation) -> int:
        """The axis before the last in which features of several heads come to lie, as in channels; or else the last."""
        mix, x, y = self.core.mix, op.operands[0], op.host
        if len(mix.columns) != 1 or not np.array_equal(x.ravel(), y.ravel()):
            return -1

        def rows(one: np.ndarray, axis: int) -> set[bytes]:
            return {row.tobytes() for row in np.moveaxis(one, axis, -1).reshape(-1, one.shape[axis])}

        ends = (n for n in range(1, min(x.ndim, y.ndim)) if x.shape[-n:] == y.shape[-n:])
        own = rows(mix.result, mix.labels[2].index(mix.columns))
        return next((-n - 1 for n in ends if x.shape[-n - 1] < y.shape[-n - 1] and rows(x, -n - 1) == own), -1)

    def _folded(self, number: int, width: int, axis: int) -> None:
        """Whose heads a row of the output, along an axis, holds."""
        op = self.operations[number]
        for name, (_, axes) in self._own_axes().items():
            at = self.alignment.places[number].get(name)
            if at is None:
                continue
            at = np.moveaxis(at, axis - 1, -2)
            rows = at.reshape(-1, at.shape[-2] // width, width, at.shape[-1])[:, :, 0]
            if not np.isfinite(rows).all():
                continue
            # What was never folded, such as heads of heads, cannot be unfolded; equal shares of all are put together.
            exchanged = (np.ptp(rows, 1)[:, axes] > 0.4).any(0)
            uneven = exchanged[0] and rows.shape[1] % len(np.unique(rows[..., axes[0]]))
            if len(self.core.mix.batch) == 1 and (exchanged.all() or uneven):
                says = "Heads are unfolded in another order than they were folded, so samples exchange them."
                # Where what was folded gets an axis more.
                after = self.operations[self.core.mix.number + 1 : number + 1]
                apart = (x.line for x in after if x.host.size == op.host.size and x.host.ndim > x.operands[0].ndim)
                self.fail("merge", "fold_batch_head_swap", next(apart, op.line), says)
            else:
                self.note("merge", "held", "each position gets its own heads", op.line)
            return
        self.note("merge", "not tried", "where the heads came from could not be followed", op.line)
