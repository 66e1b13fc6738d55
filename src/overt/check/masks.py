"""Functions that make masks, and softmaxes that take one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from overt.check.attention import difference
from overt.check.block import Block, shown
from overt.check.report import Kind
from overt.check.search import LOOSE
from overt.check.steps import Case, attend, options


def masked_softmax(block: Block) -> bool:
    """A softmax of scores that takes a mask too."""
    face = block.face
    role = next((r for r in ("mask", "padding", "lengths") if face.has(r)), None)
    if role is None or face.has("q") or block.required() > 2:
        return False
    random = np.random.default_rng(0)
    declared = face.declared_mask()
    for shape in ((2, 3, 4, 5), (2, 4, 5), (4, 5)):
        scores = random.normal(size=shape)
        whole = scores.reshape((1,) * (4 - len(shape)) + shape) if len(shape) != 3 else scores[:, None]
        lengths = np.array([3, 2][: len(whole)])
        keep = random.random(shape) < 0.6
        keep[..., 0] = True
        keep[..., 0, -1] = False
        for kind in ("lengths",) if role == "lengths" else (declared,) if declared else ("keep", "drop", "additive"):
            for number in (False, True):
                given: np.ndarray = lengths if role == "lengths" else keep if kind == "keep" else ~keep
                if kind == "additive":
                    given = np.where(keep, 0.0, -1e9)
                elif number and role != "lengths":
                    given = given.astype(float)
                got = block.call(scores, **{role: given})
                if not got or got[0].shape != shape:
                    continue
                seen = np.arange(5) < lengths[:, None, None, None] if role == "lengths" else keep.reshape(whole.shape)
                q, nothing = np.zeros((*whole.shape[:3], 1)), np.zeros((*whole.shape[:2], 5, 1))
                H = whole.shape[1]
                case = Case(q, nothing, nothing, H, H, keep=seen, bias=whole, additive=kind == "additive")
                for mine in ({}, *({s: o} for s in ("mask", "softmax") for o in options(case, s))):
                    if difference(got[0].reshape(whole.shape), attend(case, mine).weights) < LOOSE:
                        for option in mine.values():
                            block.findings.add(option.partition(":")[0])
                        block.findings.convention[role] = str(kind)
                        return True
    return False


def mask(block: Block) -> bool:
    """Functions that make a causal mask, or one of a window."""
    face = block.face
    required = [a for a in face.arguments if a.required]
    if any(a.role in ("q", "k", "v", "scores") for a in required) or not 1 <= len(required) <= 3:
        return False
    windowed = face.has("window") or "window" in face.name.lower()
    T, S, W = 6, 6, 2
    if windowed:
        values: tuple[Any, ...] = (T, W) if len(required) == 2 else (T, S, W)
        shapes = [(values, T, S)]
    elif len(required) == 1:
        shapes = [((T,), T, T)]
    else:
        shapes = [((T, T), T, T), ((4, 6), 4, 6)]
    tables = []
    for given, t, s in shapes:
        got = block.call(*given)
        if not got or got[0].size != t * s:
            return False
        y = got[0].reshape(t, s)
        if y.dtype == bool or set(np.unique(y)) <= {0, 1}:
            tables.append((y.astype(bool), t, s, True))
        else:
            tables.append((y > -1, t, s, False))
    return _judge_masks(block, tables, W if windowed else None)


def _judge_masks(block: Block, tables: list[tuple[np.ndarray, int, int, bool]], window: int | None) -> bool:
    def cells(t: int, s: int, shift: int, align: int, reach: int | None, both: bool) -> np.ndarray:
        at = np.arange(t)[:, None] + (s - t) * align
        keep = np.arange(s) <= at + shift if not both else np.ones((t, s), bool)
        if reach is not None:
            keep = keep & (np.abs(np.arange(s) - at) <= reach if both else np.arange(s) >= at - reach)
        return keep

    reaches: list[tuple[int | None, Kind | None]] = [(None, None)]
    if window is not None:
        with_self, besides = block.face.counts_itself
        counted: Kind | None = "mistake" if besides and not with_self else None if with_self else "convention"
        uncounted: Kind | None = "mistake" if with_self and not besides else None
        reaches = [(window, uncounted), (window - 1, counted), (window + 1, "mistake"), (window // 2, None)]
    told = _told(block)
    for shift in (0, 1, -1):
        for align in (1, 0):
            for reach, kind in reaches:
                for both in (False, True) if window is not None else (False,):
                    for turned in (False, True):
                        if all(
                            np.array_equal(y ^ turned, cells(t, s, shift, align, reach, both)) for y, t, s, _ in tables
                        ):
                            boolean = all(b for *_, b in tables)
                            if turned and not boolean:
                                block.findings.add("mask_inverted")
                            elif boolean:
                                mine = "drop" if turned else "keep"
                                block.findings.convention["mask"] = f"True = {'may not' if turned else 'may'} attend"
                                if told and told != mine:
                                    # Which side of the diagonal is its own then says nothing more.
                                    block.findings.add("mask_inverted")
                                    return True
                            y, t, s, _ = tables[-1]
                            meant = cells(t, s, 0, 1, window, both)
                            example = {"expected": shown(meant), "actual": shown(y ^ turned)}
                            if shift:
                                block.findings.add("causal_off_by_one", example=example)
                            if align == 0 and any(t != s for _, t, s, _ in tables):
                                block.findings.add("causal_top_left", example=example)
                            if kind:
                                block.findings.add("window_off_by_one", kind=kind)
                            return True
    block.wrong("mask", tables[0][0])
    return True


def padding(block: Block) -> bool:
    """Functions that make a mask for scores of tokens, of lengths, or of a mask (B, S) of ones and zeros."""
    required = [a for a in block.face.arguments if a.required]
    roles = [a.role for a in required]
    counted = sorted(map(str, roles)) in (["length", "lengths"], ["length", "mask"], ["length", "padding"])
    if not counted and (len(required) != 1 or roles[0] not in ("x", "mask", "padding", "q")):
        return False
    B, T = 2, 5
    pad = next((a.default for a in block.face.arguments if "pad" in a.name.lower() and isinstance(a.default, int)), 0)
    real = np.arange(T) < np.array([3, 4])[:, None]
    ids = np.where(real, np.array([[3, 4, 5, 6, 7], [5, 2, 9, 4, 8]]), pad)
    if counted:
        got = block.call(*({"lengths": real.sum(1), "length": T}.get(str(r), real.astype(int)) for r in roles))
    else:
        got = block.call(ids if roles[0] in ("x", "q") else real.astype(int))
    if not got or got[0].size not in (B * T, B * T * T) or got[0].shape[0] != B:
        return False
    y = got[0]
    if y.dtype == bool or set(np.unique(y)) <= {0, 1}:
        seen, added = y.astype(bool), False
    else:
        seen, added = y > -1, True
    wide = seen.reshape(B, 1, T) if y.size == B * T else seen.reshape(B, T, T)
    if y.size == B * T and y.ndim > 2 and y.shape[-2:] == (T, 1):
        wide = seen.reshape(B, T, 1)
    wide = np.broadcast_to(wide, (B, T, T))
    keys, queries = (np.broadcast_to(real[:, None], (B, T, T)), np.broadcast_to(real[..., None], (B, T, T)))
    before = np.tri(T, dtype=bool)
    declared = "keep" if added else _told(block)
    for option, plain in (("", keys), ("pad_on_query", queries), ("", keys & queries)):
        for causal, cells in ((False, np.ones((T, T), bool)), (True, before), (True, np.tri(T, k=1, dtype=bool))):
            for turned in (False, True):
                if not np.array_equal(wide ^ turned, plain & cells):
                    continue
                if option:
                    block.findings.add(option)
                if declared == ("keep" if turned else "drop"):
                    block.findings.add("mask_inverted")
                if causal and cells is not before:
                    block.findings.add("causal_off_by_one")
                if added and np.isneginf(y).any() and np.isfinite(y[y < -1e4]).any():
                    block.findings.add("mask_finfo_sum")
                told = "added to the scores" if added else f"True = may {'not ' * turned}attend"
                block.findings.convention["mask"] = told + (", causal" if causal else "")
                return True
    return False


def _told(block: Block) -> str | None:
    """Whether True is said to keep or to drop in what is returned."""
    prose = block.face.prose
    if re.search(r"true (means?|=|:|is|where|for)?\s*(masked|hidden|blocked|may not|pad)|block|forbid", prose):
        return "drop"
    may = r"keep|kept|visible|may attend|allow|attend|attention is allowed|real"
    if re.search(rf"\b(true|1) (means?|=|:|is|where|for)?\s*({may})", prose):
        return "keep"
    return None
