"""Heads split off, merged and repeated, packed projections taken apart, and partial results merged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np

from overt.check.parts.part import Given, Reading, wrong


def split(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """(B, T, H · d) into (B, H, T, d)."""
    x = g["x"] if g["x"].ndim == 3 else g["x"][None]
    B, T, W = x.shape
    shown = next((n for n in outs[0].shape[1:3] if n != T and W % n == 0), 1) if outs[0].ndim == 4 else 1
    H = g.number("heads", 0) or W // g.number("width", W // shown)
    if H < 2:
        return
    heads = x.reshape(B, T, H, W // H)
    ways: dict[str, np.ndarray] = {
        "B, T, H, d": heads,
        "B, H, T, d": heads.swapaxes(1, 2),
        "B, H, d, T": heads.transpose(0, 2, 3, 1),
    }
    ways |= {"T, B, H, d": heads.swapaxes(0, 1), "H, B, T, d": heads.transpose(2, 0, 1, 3)}
    ways |= {
        "B · H, T, d": ways["B, H, T, d"].reshape(B * H, T, -1),
        "H · B, T, d": ways["H, B, T, d"].reshape(-1, T, W // H),
    }
    yield from (Reading([(outs[0], y)], (("heads", how),)) for how, y in ways.items())
    for y in (x.reshape(B, H, T, -1), x.reshape(B, T, -1, H).transpose(0, 3, 1, 2)):
        yield Reading([(outs[0], y)], (), wrong("split_view"))
        yield Reading([(outs[0], y.reshape(B * H, T, -1))], (), wrong("split_view"))


def merge(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """(B, H, T, d) into (B, T, H · d)."""
    x = g["x"]
    if "heads" in g or "batch" in g:
        H = g.number("heads", 0) or len(x) // g.number("batch", 1)
        x = x.reshape(len(x) // H, H, *x.shape[1:])
    B, H, T, d = x.shape
    yield Reading([(outs[0], x.swapaxes(1, 2).reshape(B, T, H * d))])
    if g.kinds["x"] == "BTHD":
        yield Reading([(outs[0], x.reshape(B, H, T * d))])
        return
    for y in (x.reshape(B, T, H * d), x.transpose(0, 2, 3, 1).reshape(B, T, H * d)):
        yield Reading([(outs[0], y)], (), wrong("merge_view"))
    folded = x.reshape(H, B, T, d).transpose(1, 2, 0, 3).reshape(B, T, H * d)
    yield Reading([(outs[0], folded)], (), wrong("fold_batch_head_swap"))


def repeat(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Key heads, each for a group of query heads.  Ainslie et al. 2023 (arXiv:2305.13245)."""
    x, r = g["x"], g.number("repeats", 0)
    told = [layout for layout in g.face.told_layouts if layout in ("BHTD", "BTHD")]
    for layout, axis in (("BHTD", 1), ("BTHD", 2)):
        if told and layout not in told:
            continue
        r = r or g.number("heads", 1) // x.shape[axis]
        B, G, S, d = x.shape if axis == 1 else x.swapaxes(1, 2).shape
        for how, y in (("", np.repeat(x, r, axis)), ("gqa_tile", np.concatenate([x] * r, axis))):
            kind = "mistake" if g.face.declared_grouped else None
            mistakes = (("gqa_tile", kind),) if how else ()
            told_of = (("heads on axis", str(axis)),)
            for z in (y, y.swapaxes(1, 2), (y if axis == 1 else y.swapaxes(1, 2)).reshape(B * G * r, S, d)):
                yield Reading([(outs[0], z)], told_of, mistakes)  # type: ignore[arg-type]
            wide = x.reshape(B, G, 1, S, d) if axis == 1 else x[..., None, :]
            yield Reading([(outs[0], np.repeat(wide, r, 2 if axis == 1 else 3))], told_of, mistakes)  # type: ignore[arg-type]
        for other in range(4):
            for y in (np.repeat(x, r, other), np.concatenate([x] * r, other)):
                if other != axis:
                    yield Reading([(outs[0], y)], (), wrong("gqa_repeat_wrong_axis"), vague=not told)
                    shape = (B, G * r, S, d) if axis == 1 else (B, S, G * r, d)
                    yield Reading([(outs[0], y.reshape(shape))], (), wrong("gqa_repeat_wrong_axis"))


def unpack(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """One array (B, T, 3 H d) of queries, keys and values."""
    if len(outs) == 1 and outs[0].ndim and outs[0].shape[0] == 3:
        outs = list(outs[0])
    if len(outs) < 3:
        return
    x, H = g["qkv"], g.number("heads", 1)
    B, T, W = x.shape
    d = W // 3 // H
    told = g.face.told_packing or "qkv"
    apart = {"qkv": x.reshape(B, T, 3, H, d).transpose(2, 0, 3, 1, 4)}
    if H > 1:
        apart["heads first"] = x.reshape(B, T, H, 3, d).transpose(3, 0, 2, 1, 4)
        apart["d first"] = x.reshape(B, T, d, 3, H).transpose(3, 0, 4, 1, 2)
        apart["d last"] = x.reshape(B, T, d, H, 3).transpose(4, 0, 3, 1, 2)
    for how in apart:
        for order in permutations(range(3)):
            letters = "".join("qkv"[order.index(n)] for n in range(3))
            name = how if letters == "qkv" else letters if how == "qkv" else f"{how}, {letters}"
            for axes in ((0, 1, 2, 3), (0, 2, 1, 3)):
                parts = [apart[how][n].transpose(axes) for n in order]
                # Some turn the keys at once, some split no heads.
                turned = [part.swapaxes(2, 3) if n == 1 else part for part, n in zip(parts, order, strict=True)]
                for shaped in (parts, turned, [part.reshape(B, T, -1) for part in parts]):
                    pairs = list(zip(outs, shaped, strict=False))
                    yield Reading(pairs, (("packed", name),), () if name == told else wrong("qkv_order"))


def partial(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Two results over disjoint keys and their log-sum-exps.  Dao et al. 2022 (arXiv:2205.14135), section 3.1."""
    lses = np.stack([_beside(g["o1"], g[n]) for n in ("l1", "l2")])
    both = np.stack([g["o1"], g["o2"]])
    for base, told, mistakes in ((math.e, (), ()), (2.0, (("log-sum-exp", "base 2"),), wrong("lse_base2"))):
        shares = base ** (lses - lses.max(0))
        y = (shares[..., None] * both).sum(0) / shares.sum(0)[..., None]
        lse = np.log(shares.sum(0)) / np.log(base) + lses.max(0)
        said = base == 2 and any(w in g.face.prose for w in ("base 2", "base-2", "log2"))
        pairs = [(outs[0], y)]
        pairs += [(_beside(y, other), lse) for other in outs[1:2]]
        yield Reading(pairs, told, () if said else mistakes)
        yield Reading(pairs[:1], told, () if said else mistakes, vague=True)


def _beside(o: np.ndarray, lse: np.ndarray) -> np.ndarray:
    """(B, H, T, 1) or (B, H, T), and the latter beside outputs (B, T, H, D), as (…) of outputs (…, D)."""
    lse = lse[..., 0] if lse.ndim == o.ndim else lse
    return lse if lse.shape == o.shape[:-1] or lse.ndim < 3 else lse.swapaxes(1, 2)
