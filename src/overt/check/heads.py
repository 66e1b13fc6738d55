"""Heads split off, merged and repeated, and partial results merged."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from overt.check.attention import difference
from overt.check.block import Block, same
from overt.check.search import LOOSE


def split(block: Block) -> bool:
    """A function that splits (B, T, H · d) into heads (B, H, T, d)."""
    B, T, H, d = 2, 5, 3, 4
    x = np.random.default_rng(0).normal(size=(B, T, H * d))
    got = block.call(x, H)
    if not got:
        return False
    right = x.reshape(B, T, H, d).swapaxes(1, 2)
    wrong = {"split_view": x.reshape(B, H, T, d), "split_view:d": x.reshape(B, T, d, H).transpose(0, 3, 1, 2)}
    small = np.arange(8.0).reshape(1, 2, 4)
    return _reshaped(block, got[0], right, wrong, small.reshape(1, 2, 2, 2).swapaxes(1, 2), small, 2)


def unpack(block: Block) -> bool:
    """One array of queries, keys and values taken apart."""
    if not block.face.has("qkv") or block.required() > 2:
        return False
    B, T, H, d = 2, 5, 3, 4
    x = np.random.default_rng(0).normal(size=(B, T, 3 * H * d))
    got = block.call(x, H)
    if not got or len(got) < 3:
        return False
    told = block.face.told_packing or "qkv"
    apart = {"heads first": x.reshape(B, T, H, 3, d).transpose(3, 0, 2, 1, 4)}
    apart["qkv"] = x.reshape(B, T, 3, H, d).transpose(2, 0, 3, 1, 4)
    for how, parts in sorted(apart.items(), key=lambda item: item[0] != told):
        for axes in ((0, 1, 2, 3), (0, 2, 1, 3)):
            found = [next((n for n in range(3) if same(y, parts[n].transpose(axes))), None) for y in got[:3]]
            if None in found:
                continue
            block.findings.convention["packed"] = how if found == [0, 1, 2] else str(found)
            if how != told or found != [0, 1, 2]:
                block.findings.add("qkv_order", certain=block.face.told_packing is not None)
            return True
    block.wrong("unpacking", got[0])
    return True


def merge(block: Block) -> bool:
    """A function that merges heads (B, H, T, d) into (B, T, H · d)."""
    B, T, H, d = 2, 5, 3, 4
    x = np.random.default_rng(0).normal(size=(B, H, T, d))
    tries: list[tuple[Any, ...]] = [(x,), (x, H), (x.reshape(B * H, T, d), H)]
    for values in tries:
        got = block.call(*values) if len(values) <= len(block.face.arguments) else None
        if got and got[0].shape == (B, T, H * d):
            right = x.swapaxes(1, 2).reshape(B, T, H * d)
            wrong = {
                "merge_view": x.reshape(B, T, H * d),
                "merge_view:d": x.transpose(0, 2, 3, 1).reshape(B, T, H * d),
                "fold_batch_head_swap": x.reshape(H, B, T, d).transpose(1, 2, 0, 3).reshape(B, T, H * d),
            }
            small = np.arange(8.0).reshape(1, 2, 2, 2)
            return _reshaped(
                block, got[0], right, wrong, small.swapaxes(1, 2).reshape(1, 2, 4), small, *values[1:] and (2,)
            )
    return False


def repeat(block: Block) -> bool:
    """A function that repeats key heads, each for a group of query heads."""
    B, G, S, d, r = 2, 2, 5, 4, 3
    x = np.random.default_rng(0).normal(size=(B, G, S, d))
    meant = [h for h in block.face.told_layouts if h in ("BHTD", "BTHD")] or ["BHTD", "BTHD"]
    for layout in meant:
        given = x if layout == "BHTD" else x.swapaxes(1, 2)
        got = block.call(given, r)
        if not got or got[0].ndim != 4:
            continue
        y = got[0] if layout == "BHTD" else got[0].swapaxes(1, 2)
        if y.shape == (B, G * r, S, d):
            if block.face.declared_grouped and same(y, np.tile(x, (1, r, 1, 1))):
                small = np.arange(4.0).reshape(1, 2, 1, 2)
                small = small if layout == "BHTD" else small.swapaxes(1, 2)
                block.tell("gqa_tile", np.repeat(small, 2, 1 if layout == "BHTD" else 2), small, 2, kind="mistake")
                return True
            return _reshaped(block, y, np.repeat(x, r, 1), {"gqa_tile": np.tile(x, (1, r, 1, 1))})
    got = block.call(x, r)
    if got:
        block.findings.add("gqa_repeat_wrong_axis")
        return True
    return False


def _reshaped(
    block: Block,
    y: np.ndarray,
    right: np.ndarray,
    wrong: dict[str, np.ndarray],
    expected: np.ndarray | None = None,
    *small: Any,
) -> bool:
    """Judge a reshape; the small values are given once more where it is wrong."""
    folded = [
        right.reshape(-1, *right.shape[2:]),
        right.swapaxes(0, 1).reshape(-1, *right.shape[2:]),
        right.swapaxes(0, 1),
        right.swapaxes(1, 2),
    ]
    if right.ndim == 4 and y.ndim == 3:
        wrong = {n: a.reshape(-1, *a.shape[2:]) for n, a in wrong.items()}
    if same(y, right):
        return True
    for name, array in wrong.items():
        if same(y, array):
            if expected is None:
                block.findings.add(name.partition(":")[0])
            else:
                block.tell(name.partition(":")[0], expected, *small)
            return True
    if right.ndim == 4 and any(same(y, f) for f in folded):
        block.findings.convention["folded"] = str(y.shape)
        return True
    block.wrong("reshape", y)
    return True


def merged(block: Block) -> bool:
    """Two results over disjoint keys and their log-sum-exps."""
    if block.required() != 4:
        return False
    random = np.random.default_rng(0)
    outputs = [random.normal(size=(2, 3, 5, 4)) for _ in range(2)]
    lses = [random.normal(size=(2, 3, 5)) * 2 for _ in range(2)]
    first = block.face.arguments[1].name.lower()
    orders = [(outputs[0], lses[0], outputs[1], lses[1]), (outputs[0], outputs[1], lses[0], lses[1])]
    if re.search(r"^(o|out|y|b|x2|y2|o2|out2|output)", first):
        orders.reverse()
    for values in orders:
        for wide in (False, True):
            got = block.call(*[v[..., None] if wide and v.ndim == 3 else v for v in values])
            if not got or got[0].shape != outputs[0].shape:
                continue
            for base in (np.e, 2.0):
                powers = [base**x for x in lses]
                expected = (powers[0][..., None] * outputs[0] + powers[1][..., None] * outputs[1]) / (
                    powers[0] + powers[1]
                )[..., None]
                if difference(got[0], expected) < LOOSE:
                    if base == 2:
                        block.findings.add("lse_base2")
                    return True
    if block.error is not None:
        return False
    block.wrong("merge", outputs[0])
    return True
