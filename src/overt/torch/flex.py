"""Attention by FlexAttention on devices that have it: masks and scores for which torch's other kernels have no place.

A mask is at most three things to it: spans of keys, of which whole blocks are left out; a boolean array; and numbers of
−∞ in a bias.  A bias is a table of distances and an array.  The sinks join afterwards, by the log-sum-exp of the rest.
It is compiled once for each kind of problem, whatever the lengths, and gradients are those of blocks of rows.
"""

from __future__ import annotations

from functools import cache
from math import prod
from types import FunctionType
from typing import Any, NamedTuple

import array_api_compat.torch as xp
import torch
from torch import Tensor
from torch.nn import functional

from overt.biases import Bias, Dense, Distance
from overt.masks import Keep, Mask
from overt.problem import Problem
from overt.scores import Additive
from overt.torch import blocks
from overt.torch.blocks import DeviceCells, Held

# Where torch compiles it with the log-sum-exp.
_DEVICES = ("cuda", "xpu")
# Queries and keys of a block, of which there are at most so many along either axis.
_BLOCK, _MOST = 128, 1024
# Kinds of problems that it has refused to compile.
_refused: set[Any] = set()


class _Asked(NamedTuple):
    """Spans (B or 1, H or 1, T), and arrays (B or 1, H or 1, T or 1, S or 1) and tables (B or 1, H or 1, T + S − 1).

    Numbers are arrays (1,), so that others compile nothing anew.
    """

    first: Tensor | None
    last: Tensor | None
    keep: Tensor | None
    table: Tensor | None
    dense: Tensor | None
    softcap: Tensor | None
    scale: Tensor


class _Blocks(NamedTuple):
    """How many blocks of keys each block of queries sees (B or 1, H or 1, ⌈T / size⌉), and which (…, ⌈S / size⌉)."""

    counts: Tensor
    indices: Tensor
    size: int


def forward(problem: Problem, *, rows: bool = True) -> tuple[Tensor, Tensor | None] | None:
    """Output (B, H, T, E) in the dtype of q and, of all ``rows``, the lse (B, H, T) in float32.

    None where blocks of rows are to compute them: dropout, additive scores, float64, masks that are neither spans nor
    arrays, several arrays as a bias, problems that are one block of rows, other devices, and what torch cannot compile.
    """
    if not _can(problem):
        return None
    asked = _asked(problem)
    if asked is None:
        return None
    q, k, scale = problem.score.factors(xp, problem.q, problem.k)
    asked = asked._replace(scale=q.new_full((1,), float(scale), dtype=torch.float32))
    rows = rows or problem.sinks is not None
    parts = *(x is not None for x in asked), rows
    kind = q.device.type, q.dtype, q.shape[-1], problem.v.shape[-1], parts
    if kind in _refused:
        return None
    v, spoiled, blind = problem.v, None, None
    if asked.first is not None:
        k, v, spoiled, blind = _shown(problem, k, asked)
    try:
        y, lse = _compiled(parts)(q, k, v, asked, _blocks(problem, asked), rows)
    except (torch._dynamo.exc.TorchDynamoException, NotImplementedError):
        _refused.add(kind)
        return None
    if spoiled is not None and blind is not None:
        # What was shown in place of nothing.
        y = torch.where(spoiled[..., None], torch.nan, torch.where(blind[..., None], 0.0, y))
        if lse is not None:
            lse = torch.where(spoiled, torch.nan, torch.where(blind, -torch.inf, lse))
    if problem.sinks is not None:
        sinks = problem.sinks.float()[:, None]
        beside = torch.where(lse == -torch.inf, 0.0, torch.sigmoid(lse - sinks))
        y, lse = y * beside[..., None].to(y.dtype), torch.logaddexp(lse, sinks)
    return y, lse


def _can(problem: Problem) -> bool:
    B, H, T, S = problem.shape.B, problem.shape.H, problem.shape.T, problem.shape.S
    known = problem.q.device.type in _DEVICES and problem.q.dtype != torch.float64
    plain = problem.dropout is None and not isinstance(problem.score, Additive)
    return known and plain and B * H * T * S > blocks.CELLS and 0 not in (problem.q.shape[-1], problem.v.shape[-1])


def _asked(problem: Problem) -> _Asked | None:
    """The mask and the bias, on their device; None for what they cannot say in this way."""
    shape, place = problem.shape, problem.q.device
    first = last = keep = table = dense = None
    if problem.mask is not None:
        cells = DeviceCells.of_part(problem)
        # What is known on the host is lowered there, as far as it goes.
        plan: Any = problem.mask.lowered(cells if _is_elsewhere(problem.mask) else problem.cells)
        edges = (torch.as_tensor(edge, device=place).int() for edge in plan[:2])
        all_rows = torch.empty((1, 1, shape.T), device=place)
        first, last, _ = torch.broadcast_tensors(*edges, all_rows)  # type: ignore[no-untyped-call]
        if isinstance(plan.rest, Held | Keep):
            array = plan.rest.tensor if isinstance(plan.rest, Held) else plan.rest.array
            keep = _four(torch.as_tensor(array, device=place), problem)
        if plan.rest is not None and (keep is None or keep.shape[-1] != shape.S):
            return None
    for term in () if problem.bias is None else problem.bias.terms:
        own = _numbers(term, problem)
        if own is None or (own.ndim == 4 and dense is not None):
            return None
        if own.ndim == 4:
            dense = own
        else:
            table = own if table is None else table + own
    if dense is not None:
        shown = dense != -torch.inf
        if keep is not None:
            both = torch.broadcast_shapes(keep.shape, shown.shape)  # type: ignore[no-untyped-call]
            if both[2] > 1 and prod(both) > max(keep.numel(), shown.numel()):
                return None
        keep = shown if keep is None else keep & shown
        if keep.shape[-1] != shape.S:
            return None
        if first is None:
            first = torch.zeros((1, 1, shape.T), dtype=torch.int32, device=place)
            last = first + shape.S
    softcap = None if problem.softcap is None else torch.full((1,), problem.softcap, device=place)
    return _Asked(first, last, keep, table, dense, softcap, torch.ones(1, device=place))


def _is_elsewhere(mask: Mask) -> bool:
    return isinstance(mask, Held) or mask.is_elsewhere


def _numbers(term: Bias, problem: Problem) -> Tensor | None:
    """A term as a table of distances or as an array of four axes."""
    term = term.exchanged(problem.beside(term.parameter))
    if isinstance(term, Dense):
        return _four(term.parameter, problem)
    table: Any = term.table(problem.shape) if isinstance(term, Distance) else None
    return table


def _four(x: Tensor, problem: Problem) -> Tensor | None:
    """An array that broadcasts to (…, H, T, S) with one axis for batch rows; None where only a copy has it."""
    batch = problem.shape.batch
    x = x.reshape((1,) * (len(batch) + 3 - x.ndim) + tuple(x.shape))
    leading = x.shape[:-3]
    if any(n == 1 for n in leading) and any(n != 1 for n in leading):
        return None
    return x.flatten(0, -4) if batch else x[None]


def _shown(problem: Problem, k: Tensor, asked: _Asked) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys and values with zeros for what is not finite, the rows (B, H, T) that see such, and those that see none."""
    wide = tuple(problem.q.shape[:3])
    finite = k.isfinite(), problem.v.isfinite()
    wild = problem.heads(~(finite[0].all(dim=-1) & finite[1].all(dim=-1)))[:, :, None]
    keep = asked.keep
    some = asked.first < asked.last if keep is None else _any(keep, asked)  # type: ignore[operator]
    spoiled = _any(wild if keep is None else keep & wild, asked)
    k, v = torch.where(finite[0], k, 0.0), torch.where(finite[1], problem.v, 0.0)
    return k, v, spoiled.expand(wide), ~some.expand(wide)


def _any(cells: Tensor, asked: _Asked) -> Tensor:
    """Whether any of these cells (B or 1, H or 1, T or 1, S) lies in the span of each row."""
    assert asked.first is not None
    assert asked.last is not None
    if cells.shape[2] != 1:
        s = torch.arange(cells.shape[3], device=cells.device)
        return (cells & (asked.first[..., None] <= s) & (s < asked.last[..., None])).any(dim=-1)
    count = functional.pad(cells[:, :, 0].cumsum(dim=-1), (1, 0))
    B, H = torch.broadcast_shapes(count.shape[:2], asked.first.shape[:2])  # type: ignore[no-untyped-call]
    first, last = (edge.long().expand(B, H, -1) for edge in (asked.first, asked.last))
    count = count.expand(B, H, -1)
    return (count.gather(-1, last) > count.gather(-1, first)) & (first < last)


def _blocks(problem: Problem, asked: _Asked) -> _Blocks | None:
    first, last = asked.first, asked.last
    if first is None or last is None:
        return None
    S, size = problem.shape.S, _BLOCK
    while max(problem.shape.T, S) > size * _MOST:
        size *= 2
    B, H, T = first.shape
    count, beyond = -(-T // size), -T % size
    blind = first >= last
    starts = functional.pad(first.masked_fill(blind, S), (0, beyond), value=S).reshape(B, H, count, size)
    ends = functional.pad(last.masked_fill(blind, 0), (0, beyond)).reshape(B, H, count, size)
    start, end = starts.amin(dim=-1) // size, (ends.amax(dim=-1) + size - 1) // size
    keys = -(-S // size)
    indices = (start[..., None] + torch.arange(keys, device=first.device)).clamp(max=keys - 1)
    return _Blocks((end - start).clamp(min=0).int(), indices.int(), size)


def _mixed(
    q: Tensor, k: Tensor, v: Tensor, asked: _Asked, seen: _Blocks | None, rows: bool
) -> tuple[Tensor, Tensor | None]:
    """What is compiled."""
    from torch.nn.attention import flex_attention as flex

    first, last, keep, table, dense, softcap, scale = asked
    T, S = q.shape[-2], k.shape[-2]

    def score(x: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        x = x * scale[0]
        if softcap is not None:
            x = softcap[0] * torch.tanh(x / softcap[0])
        if table is not None:
            x = x + table[_at(table, 0, b), _at(table, 1, h), s - t + T - 1]
        if dense is not None:
            x = x + dense[_at(dense, 0, b), _at(dense, 1, h), _at(dense, 2, t), _at(dense, 3, s)]
        return x

    def visible(b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
        assert first is not None
        assert last is not None
        row = _at(first, 0, b), _at(first, 1, h), t
        inside = (first[row] <= s) & (s < last[row])
        return inside if keep is None else inside & keep[_at(keep, 0, b), _at(keep, 1, h), _at(keep, 2, t), s]

    block_mask = None
    if seen is not None:
        options: dict[str, Any] = {"BLOCK_SIZE": seen.size, "seq_lengths": (T, S), "compute_q_blocks": False}
        block_mask = flex.BlockMask.from_kv_blocks(seen.counts, seen.indices, mask_mod=visible, **options)
    same: dict[str, Any] = {"score_mod": score, "block_mask": block_mask, "scale": 1.0}
    same["enable_gqa"] = q.shape[1] != k.shape[1]
    if not rows:
        y: Any = flex.flex_attention(q, k, v, **same)
        return y, None
    if not hasattr(flex, "AuxRequest"):
        return flex.flex_attention(q, k, v, return_lse=True, **same)
    y, beside = flex.flex_attention(q, k, v, return_aux=flex.AuxRequest(lse=True), **same)
    return y, beside.lse


def _at(x: Tensor, axis: int, index: Tensor) -> Tensor:
    """An index along an axis, or 0 where all share what is there."""
    return index if x.shape[axis] != 1 else index * 0


@cache
def _compiled(parts: tuple[bool, ...]) -> Any:
    # How often it may be compiled anew, for lengths that meet for the first time, torch counts by code.
    own = FunctionType(_mixed.__code__.replace(), globals(), closure=_mixed.__closure__)
    return torch.compile(own, dynamic=True, fullgraph=True)
