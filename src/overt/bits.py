"""Masks worked out once: what spans do not say of them, as packed bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overt.errors import ArgumentError
from overt.grid import Cells, Packing, Shape
from overt.masks import Keep, Mask, Plan, causal

# Bits of more bytes than these are not kept.
_BYTES = 1 << 26
# Cells are worked out about this many at a time.
_CELLS = 1 << 21


def settled(mask: Mask, shape: Shape) -> Mask:
    """The same mask for score matrices of this shape, which answers many questions for the price of one.

    Its spans are kept, and of what spans do not say, such as ``where``, scattered ``documents`` or a union, one bit for
    each cell, if all of them are at most 64 MiB; beyond that the parts of the mask are asked again each time.
    """
    if mask is causal():
        # Kernels remember its spans.
        return mask
    plan = mask.plan(shape.T, shape.S, shape.batch, shape.H)
    if plan.rest is None or isinstance(plan.rest, Keep):
        return _Settled(mask, shape, plan)
    found = _worked_out(plan.rest, shape)
    if found is None:
        return _Settled(mask, shape, plan)
    first, last, bits = found
    return _Settled(mask, shape, Plan(np.maximum(plan.first, first), np.minimum(plan.last, last), bits))


def _worked_out(mask: Mask, shape: Shape) -> tuple[np.ndarray, np.ndarray, _Bits | None] | None:
    """First and past-the-last visible key of each query, and the bits if there are gaps; None if these are too many."""
    whole = shape.cells()
    one = Cells(shape, whole.b, whole.h, whole.t[:1], whole.s)
    # A mask need not differ by batch row or head.
    B, H = np.broadcast_shapes((1, 1, 1, 1), np.shape(mask.visible(one)))[:2]
    T, S = shape.T, shape.S
    if 0 in (B, H, T, S):
        return None
    first, last = np.zeros((2, B, H, T), np.int64)
    fits = B * H * T * -(-S // 8) <= _BYTES
    bits = np.zeros((B, H, T, -(-S // 8)) if fits else 0, np.uint8)
    spans, step = True, max(_CELLS // (B * H * S), 1)
    for start in range(0, T, step):
        rows = slice(start, start + step)
        visible = np.asarray(mask.visible(Cells(shape, whole.b[:B], whole.h[:H], whole.t[rows], whole.s)))
        visible = np.broadcast_to(visible, (B, H, len(whole.t[rows]), S))
        count = visible.sum(axis=-1)
        first[..., rows] = visible.argmax(axis=-1)
        last[..., rows] = np.where(count == 0, 0, S - visible[..., ::-1].argmax(axis=-1))
        spans = spans and bool((last[..., rows] - first[..., rows] == count).all())
        if fits:
            bits[:, :, rows] = np.packbits(visible, axis=-1)
        elif not spans:
            return None
    return first, last, None if spans else _Bits(bits)


@dataclass(frozen=True, eq=False)
class _Bits(Mask):
    """One bit a cell, (B or 1, H or 1, T, ⌈S / 8⌉) bytes."""

    words: np.ndarray

    def visible(self, cells: Cells) -> np.ndarray:
        b, h, t, s = np.atleast_1d(cells.b, cells.h, cells.t, cells.s)
        B, H = self.words.shape[:2]
        b, h = (b if B > 1 else np.zeros_like(b)), (h if H > 1 else np.zeros_like(h))
        if max(b.shape[-1], h.shape[-1], t.shape[-1]) == 1 and s.ndim == 1:
            # Whole rows are unpacked at once.
            rows = self.words[b[..., 0], h[..., 0], t[..., 0]]
            run = s.size > 0 and s[-1] - s[0] == s.size - 1
            keys = slice(s[0], s[-1] + 1) if run else s
            return np.unpackbits(rows, axis=-1)[..., keys].view(bool)
        return (self.words[b, h, t, s >> 3] >> (7 - (s & 7)) & 1).astype(bool)


@dataclass(frozen=True, eq=False)
class _Settled(Mask):
    mask: Mask
    shape: Shape
    whole: Plan

    def __repr__(self) -> str:
        return repr(self.mask)

    @property
    def packing(self) -> Packing | None:
        return self.mask.packing

    def visible(self, cells: Cells) -> np.ndarray:
        full = self.shape.B, self.shape.H, self.shape.T
        first, last = (np.broadcast_to(x, full)[cells.b, cells.h, cells.t] for x in self.whole[:2])
        spanned = (first <= cells.s) & (cells.s < last)
        return spanned if self.whole.rest is None else spanned & self.whole.rest.visible(cells)

    def check(self, shape: Shape) -> None:
        if self.shape.full != shape.full:
            raise ArgumentError(
                f"this mask was worked out for {self.shape.full} and not for {shape.full}: make it anew"
            )

    def _plan(self, rows: Cells) -> Plan:
        first, last = (_picked(edge, rows) for edge in self.whole[:2])
        return Plan(first, last, self.whole.rest)


def _picked(edge: np.ndarray, rows: Cells) -> np.ndarray:
    """What spans (B or 1, H or 1, T or 1) say of some queries; what all share is not repeated."""
    axes = zip((rows.b, rows.h, rows.t), edge.shape, strict=True)
    return edge[tuple(x if n != 1 else np.zeros((1,) * x.ndim, np.int64) for x, n in axes)]
