"""Softmax, masks made of sizes, lengths and tokens, and softmaxes that take one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np

from overt.check.parts.part import Given, Reading, wrong
from overt.check.report import Kind
from overt.check.steps.definitions import MASKINGS, SOFTMAXES, bare, same, softmax, softmaxes, weights


def plain(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Over the last axis.  Vaswani et al. 2017, equation 1."""
    x, y = g["scores"], outs[0]
    if y.shape != x.shape:
        return
    whole = x.reshape((1,) * (4 - x.ndim) + x.shape)
    for how, top in product((None, *SOFTMAXES), (None, "no_max", "global_max")):
        if how is None and x.ndim == 1 and top == "global_max":
            continue
        vague = how in ("softmax_missing", "no_exp_norm")
        if top is None or not (vague or "partial" in (how or "") or "row max" in (how or "")):
            meant = softmax(whole, how, top=top).reshape(x.shape)
            # Over all numbers of one row is over the row.
            yield Reading([(y, meant)], (), wrong(how or "", top or ""), vague)
    with np.errstate(all="ignore"):
        yield Reading([(y, np.log(softmax(whole, None)).reshape(x.shape))], (("kind", "logarithm of softmax"),))


def masked(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """A softmax of scores that are hidden where a mask, or a length, says so."""
    x, y = g["scores"], outs[0]
    if y.shape != x.shape:
        return
    whole = x.reshape((1,) * (4 - x.ndim) + x.shape) if x.ndim != 3 else x[:, None]
    B, H, _, S = whole.shape
    declared = g.face.declared_mask()
    if "lengths" in g:
        # One for each sample, or one for each query.
        lengths = g["lengths"]
        both = {"lengths": np.arange(S) < lengths.reshape(-1, *(1,) * (x.ndim - 1)).reshape(len(lengths), 1, -1, 1)}
    elif g.kinds["mask"].startswith("added"):
        both = {"additive": g["mask"] > -1}
    else:
        seen = g["mask"].astype(bool)
        both = {"keep": seen, "drop": ~seen}
    for told, keep in both.items():
        shaped = keep.reshape((keep.shape[0], 1, *keep.shape[1:])) if keep.ndim == 3 and x.ndim == 3 else keep
        against = declared in ("keep", "drop") and told in ("keep", "drop") and told != declared
        # The opposite reading of an additive mask is a boolean one.
        inverted = "mask_float_as_bool" if told == "additive" else "mask_inverted"
        maskings = [inverted if how == "mask_inverted" else how for how in MASKINGS]
        for masking, how in [(None, None), *((o, None) for o in maskings), *((None, o) for o in softmaxes(B, H))]:
            names = [masking or "", how or "", "mask_inverted" if against else ""]
            if against or "mask_inverted" not in names:
                meant = weights(whole, shaped, masking, how)
                yield Reading([(y.reshape(whole.shape), meant)], (("mask", told),), wrong(*names))


def segments(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Over the numbers with one index, such as the edges that end at a node.  Veličković et al. 2018, equation 3."""
    x, at, y = g["scores"], g["ends"], outs[0]
    if y.shape != x.shape:
        return

    def over(some: np.ndarray) -> np.ndarray:
        return np.stack([some[at == one].sum(0) for one in at])

    top = np.stack([x[at == one].max(0) for one in at])
    with np.errstate(all="ignore"):
        powers, plain = np.exp(x - top), np.exp(x)
        shared = np.exp(x - x.max())
        ways = {
            "": powers / over(powers),
            "softmax_partial_max": powers / over(plain),
            "no_max": plain / over(plain),
            "softmax_axis_head_or_batch": shared / shared.sum(0),
            "no_exp_norm": x / over(x),
        }
        for name, meant in ways.items():
            yield Reading([(y, meant)], (), wrong(name))
        yield Reading([(y, shared / over(shared))], (), (("global_max", "risk"),))
        yield Reading([(y, powers)], (), wrong("softmax_missing"), vague=True)


def forms(y: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """What a mask hides: booleans, or 0 and 1, either way; or numbers that are added, the wrong way too."""
    if y.dtype == bool or set(np.unique(y)) <= {0, 1}:
        yield from (("keep", y.astype(bool)), ("drop", ~y.astype(bool)))
    elif not np.isnan(y).any() and set(np.unique(y[y > -1])) == {0.0}:
        yield from (("additive", y > -1), ("mask_inverted", y < -1))


def sized(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Causal masks and windows (T, S) of sizes; query t stands at key t + S − T."""
    T = g.number("length", 0) or g["x"].shape[-2 if g["x"].dtype.kind == "f" else -1]
    S = g.number("key_length", T)
    y = bare(outs[0])
    if "x" in g and y.ndim == 3:
        y = y[0]
    if y.shape != (T, S):
        return
    reaches: list[tuple[int | None, Kind | None, bool]] = [(None, None, False)]
    if "window" in g:
        with_self, besides = g.face.counts_itself()
        W = g.number("window", 0)
        both = with_self is not besides
        reaches = [
            (W, "mistake", both and with_self),
            (W - 1, "mistake" if both else "convention", (both and besides) or not both),
        ]
        reaches += [(W + 1, "mistake", True), (W // 2, None, False), ((W - 1) // 2, None, False)]
    at = np.arange(T)[:, None]
    promised = any(
        w in g.face.prose + g.face.name.lower() for w in ("caus", "autoreg", "subsequent", "future", "ahead")
    )
    for (told, seen), align, shift, (reach, kind, off), ahead in product(
        forms(y), (1, 0), (0, 1, -1), reaches, ("window" in g and not promised, False)
    ):
        place = at + (S - T) * align
        keep = np.ones((T, S), bool) if ahead else np.arange(S) <= place + shift
        if reach is not None:
            keep &= np.abs(np.arange(S) - place) <= reach if ahead else np.arange(S) >= place - reach
        names = ["causal_off_by_one" if shift and not ahead else "", "" if align or T == S else "causal_top_left"]
        yield _told(g, told, [(seen, keep)], [n for n in names if n], (("window_off_by_one", kind),) if off else ())


def _told(
    g: Given, told: str, pairs: list[tuple[np.ndarray, np.ndarray]], names: list[str], more: tuple = (), also: str = ""
) -> Reading:
    """A mask of a polarity, against the one that was promised."""
    promised = polarity(g.face.prose)
    against = told == "mask_inverted" or (told in ("keep", "drop") and promised not in (None, told))
    if against:
        # Which side of the diagonal is its own then says nothing more.
        names = ["mask_inverted"]
        more = ()
    says = {"keep": "True = may attend", "drop": "True = may not attend"}.get(told, "added to the scores")
    return Reading(pairs, (("mask", says + also),), (*wrong(*names), *more))


def padded(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Masks of tokens, of lengths, or of (B, S) ones and zeros; beside the causal one too."""
    y = outs[0]
    if "lengths" in g:
        S = g.number("length", int(g["lengths"].max()))
        real = np.arange(S) < g["lengths"][:, None]
    else:
        real = g["tokens"] != 0
    B, S = real.shape
    if (
        y.shape[:1] != (B,)
        or (y.shape[-2:] != (S, 1) and y.shape[-1] != S)
        or y.size not in (B * S, B * S * S)
        or real.all()
    ):
        return
    if "tokens" in g and y.size == B * S and same(y, g["tokens"]) and not re.search("mask|pad", g.face.promise):
        # What comes out as it went in may be anything.
        return
    keys = np.broadcast_to(real[:, None], (B, S, S))
    queries, past, ones = keys.swapaxes(1, 2), np.tri(S, dtype=bool), np.ones((S, S), bool)
    for told, seen in forms(y):
        column = y.size == B * S and y.ndim > 2 and y.shape[-1] == 1
        wide = np.broadcast_to(seen.reshape((B, S, 1) if column else (B, -1, S)), (B, S, S))
        overflow = told == "additive" and np.isneginf(y).any() and np.isfinite(y[y < -1e4]).any()
        for (name, plain), (off, cells) in product(
            (("", keys), ("pad_on_query", queries), ("", keys & queries)),
            ((None, ones), ("", past), ("causal_off_by_one", np.tri(S, k=1, dtype=bool))),
        ):
            names = [n for n in (name, off or "", "mask_finfo_sum" if overflow else "") if n]
            yield _told(g, told, [(wide, plain & cells)], names, also="" if off is None else ", causal")
    if "tokens" in g and g["tokens"].max() > 1:
        for told, seen in forms(y):
            yield _told(
                g,
                told,
                [(seen.reshape(B, -1, S), g["tokens"][:, :, None] == g["tokens"][:, None])],
                [],
                also=", documents",
            )


def polarity(prose: str) -> str | None:
    """Whether True is said to keep or to drop in what is returned."""
    if re.search(r"true (means?|=|:|is|where|for)?\s*(masked|hidden|blocked|may not|pad)|block|forbid", prose):
        return "drop"
    may = r"keep|kept|visible|may attend|allow|attend|attention is allowed|real"
    if re.search(rf"\b(true|1) (means?|=|:|is|where|for)?\s*({may})", prose):
        return "keep"
    return None
