"""Positions: sinusoids, rotations, ALiBi, learned tables and relative biases; and embeddings with their scale."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from overt import biases
from overt.check.parts.part import Given, Reading, wrong
from overt.check.report import Kind
from overt.check.steps.definitions import bare, every_second, frequencies, rotate, sinusoids, slopes_of, waves
from overt.grid import Shape

_SLOPES = (None, "alibi_slopes:from 0", "alibi_slopes:formula", "alibi_slopes:from 0 formula")


def encodings(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """A table of sines and cosines, or what an input and such a table add up to."""
    y, x = outs[0], g.values.get("x")
    if "tokens" in g:
        return
    width = x.shape[-1] if x is not None else g.number("width", y.shape[-1] if y.ndim else 0)
    if width < 2 or width % 2 or y.shape[-1:] != (width,):
        return
    points = g["positions"].reshape(-1) if "positions" in g else np.arange(g.number("length", 0) or len(bare(y)))
    for told, table in _added(x, y) if x is not None else [((), bare(y))]:
        if table.ndim == 3 and "positions" in g and len(table) == len(np.atleast_1d(g["positions"])):
            table = table[0]
            points = g["positions"][0]
        table = table.reshape(-1, width)
        at = np.arange(len(table)) if x is not None else points
        if len(at) != len(table):
            continue
        for how, meant in sinusoids(at, width, g.bases()):
            yield Reading([(table, meant)], (*told, ("sines and cosines", how)))
        if at[0] == 0 and waves(table):
            yield Reading([(table, table)], told, wrong("pe_exponent"), vague=x is None and 10_000 not in g.numbers)
        for path, rows in g.arrays.items():
            if rows.ndim == 2 and rows.shape[-1] == width and len(rows) >= len(table) and x is not None:
                yield Reading([(table, rows[: len(table)])], (*told, ("learned positions", path)))


def _added(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[tuple[tuple[str, str], ...], np.ndarray]]:
    """Tables (n, W) that x (B, T, W) or (T, B, W) and y may differ by, with what x is multiplied by."""
    for gain in (1.0, 0.0, x.shape[-1] ** 0.5):
        rest = y - gain * x if y.shape == x.shape else y if gain == 0 else None
        if rest is None:
            continue
        told = (("input times", f"{gain:.3g}"),)
        if rest.ndim == 3 and len(rest) > 1 and rest.shape[1] > 1:
            if np.ptp(rest, axis=0).max() < 1e-4:
                yield told, rest[0]
            elif np.ptp(rest, axis=1).max() < 1e-4:
                yield told, rest[:, 0]
        elif bare(rest).ndim == 2:
            yield told, bare(rest)


def embeddings(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Rows of a table for tokens, times √width; positions may be added.  Vaswani et al. 2017, 3.4."""
    ids, y = g["tokens"], outs[0]
    tables = {**g.arrays, **({"table": g["table"]} if "table" in g else {})}
    for path, table in tables.items():
        if table.ndim != 2 or len(table) <= ids.max() or y.shape != (*ids.shape, table.shape[1]):
            continue
        W = table.shape[1]
        scales: tuple[tuple[float, Kind | None], ...] = ((W**0.5, None), (1.0, "risk"), (W**-0.5, "mistake"))
        for factor, kind in scales:
            told = (("kind", "embedding"),)
            mistakes: tuple[tuple[str, Kind | None], ...] = (("embed_scale", kind),) if kind else ()
            rest = y - table[ids] * factor
            yield Reading([(y, table[ids] * factor)], told, mistakes)
            if np.ptp(rest, axis=0).max() < 1e-4 and np.abs(rest).max() > 1e-3:
                shown = rest[0]
                for how, meant in sinusoids(np.arange(ids.shape[1]), W, g.bases()) if W % 2 == 0 else ():
                    yield Reading([(shown, meant)], (*told, ("sines and cosines", how)), mistakes)
                for other, rows in g.arrays.items():
                    if other != path and rows.shape[1:] == (W,) and len(rows) >= len(shown):
                        yield Reading([(shown, rows[: len(shown)])], (*told, ("learned positions", other)), mistakes)
                if waves(shown):
                    yield Reading([(shown, shown)], told, (*mistakes, *wrong("pe_exponent")))


def rotations(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """x, or q and k, turned by their positions.  Su et al. 2021 (arXiv:2104.09864), equation 34."""
    roles = [r for r in ("x", "q", "k") if r in g]
    if len(outs) < len(roles):
        return
    xs = [_timed(g[r], g.kinds[r]) for r in roles]
    ys = [_timed(y, g.kinds[r]) if y.shape == g[r].shape else y for y, r in zip(outs, roles, strict=False)]
    T, D = xs[0].shape[-2:]
    # A rotation keeps lengths, and even a wrong one does so nearly.
    if any(x.shape != y.shape or not 0.5 < (y**2).mean() / (x**2).mean() < 2 for x, y in zip(xs, ys, strict=True)):
        return
    first = g.number("offset", int(g["positions"].reshape(-1)[0]) if "positions" in g else 0)
    tables = any(r in g for r in ("cos", "turns"))
    starts = (0,) if tables else tuple(dict.fromkeys((first, 0, 1, first + 1, first - 1)))
    told = (("layout", g.kinds[roles[0]]),)
    for base, start, (layout, how), part in product(
        (10_000.0,) if tables else g.bases(), starts, _TURNED if not tables else _TURNED[:2], (1, 2, 4)
    ):
        if D // part % 2:
            continue
        late = start != first and (first or start != 1)
        names = (how, "rope_offset" if late else "")
        said = ("rope", "mixed" if how else layout + (f" of one in {part}" if part > 1 else ""))
        more = (("base", f"{base:g}"),) if base != 10_000 else ()
        for sign in (1, -1):
            turned = [_part(x, sign * (np.arange(T) + start), layout, how, base, D // part) for x in xs]
            yield Reading(list(zip(ys, turned, strict=True)), (*told, said, *more), wrong(*names))
            if layout == "interleaved" and not how:
                # Written as halves, which q and k share.
                apart = [np.concatenate([t[..., ::2], t[..., 1::2]], -1) for t in turned]
                yield Reading(
                    list(zip(ys, apart, strict=True)),
                    (*told, ("rope", "interleaved, written as halves")),
                    wrong(*names),
                )


_TURNED = (
    ("half", ""),
    ("interleaved", ""),
    ("half", "rope_layout:half rotation"),
    ("half", "rope_layout:interleaved rotation"),
)


def _part(x: np.ndarray, points: np.ndarray, layout: str, how: str, base: float, width: int) -> np.ndarray:
    return np.concatenate([rotate(x[..., :width], points, layout, how or None, base), x[..., width:]], -1)


def _timed(x: np.ndarray, kind: str) -> np.ndarray:
    """With the positions on the last axis but one."""
    return np.moveaxis(x, kind.index("T"), -2)


def angles(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Cosines and sines of rotations, one complex number for both, or the angles themselves."""
    D, T = g.number("width", 0), g.number("length", 0)
    D = D or 2 * outs[0].shape[-1]
    T = T or (g["positions"].shape[-1] if "positions" in g else 0)
    points = g["positions"].reshape(-1)[:T] if "positions" in g else np.arange(T)
    for base in g.bases():
        told = (("base", f"{base:g}"),)
        half = points[:, None] * frequencies(D, base)
        for how, wide in {
            "": half,
            "halves": np.concatenate([half, half], -1),
            "interleaved": np.repeat(half, 2, -1),
        }.items():
            says = (*told, ("pairs", how)) if how else told
            for a, b in ((np.cos(wide), np.sin(wide)), (np.sin(wide), np.cos(wide))):
                if len(outs) == 2:
                    yield Reading([(_first(outs[0], a), a), (_first(outs[1], b), b)], says)
                elif how == "":
                    for both in (np.stack([a, b], -1), np.stack([a, b]), np.concatenate([a, b], -1)):
                        yield Reading([(outs[0], both)], says)
            if len(outs) == 1:
                yield Reading([(_first(outs[0], wide), wide)], (*says, ("holds", "angles")))
        if "positions" not in g and len(outs) == 1:
            yield Reading([(outs[0], frequencies(D, base))], (*told, ("holds", "frequencies")))


def _first(y: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Of tables that are the same for every sample, one."""
    y = bare(y)
    return y[0] if y.ndim == like.ndim + 1 and y.shape[1:] == like.shape and np.ptp(y, axis=0).max() == 0 else y


def slopes(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Slopes (H,) of ALiBi.  Press et al. 2022 (arXiv:2108.12409), and its code where H is no power of two."""
    H = g.number("heads", 0)
    y = np.abs(outs[0])
    if y.size != H:
        return
    y = y.reshape(-1)
    for how in _SLOPES:
        yield Reading([(y / slopes_of(H, how), np.ones(H))], (), wrong(how or ""))
    yield Reading([(y / every_second(H), np.ones(H))], (("slopes", "as in MPT"),))


def linear(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """The bias (H, T, S) of ALiBi; a constant added to a row, and keys ahead of the query, change nothing."""
    given = g.values.get("slopes")
    H = len(given) if given is not None else g.number("heads", 0)
    S = g["mask"].shape[-1] if "mask" in g else g.number("key_length", g.number("length", 0))
    T = S if "mask" in g else g.number("length", S)
    y = bare(outs[0])
    B = len(g["mask"]) if "mask" in g else 1
    if y.ndim < 2 or y.shape[-1] != S or y.size not in (B * H * T * S, B * H * S, H * T * S, H * S):
        return
    y = y.reshape(
        -1, H, y.size // S // H // max(1, y.size // (H * T * S) if y.size >= H * T * S else y.size // (H * S)), S
    )
    y = np.broadcast_to(y[-1], (H, T, S))
    past = np.arange(S) <= np.arange(T)[:, None] + S - T
    ahead = np.arange(S) - np.arange(T)[:, None]
    if np.ptp(np.where(np.isfinite(y), y, 0)) == 0:
        return
    for (name, each), sign in product(_series(H, given), (1.0, -1.0)):
        mistakes = wrong(name, "alibi_sign" if sign < 0 else "")
        meant = sign * each[:, None, None] * (ahead - (S - T))
        behind = np.where(past, np.where(np.isfinite(y), y, 0), np.nan)
        moved = meant - np.nanmean(np.where(past, meant, np.nan), -1, keepdims=True)
        seen = np.where(past, behind - np.nanmean(behind, -1, keepdims=True), np.nan)
        told = (("slopes", "as in MPT"),) if name is None else ()
        yield Reading([(seen, np.where(past, moved, np.nan))], told, mistakes)
        if T != S:
            yield Reading([(y, -sign * each[:, None, None] * np.abs(ahead))], told, (*mistakes, ("alibi_offset", None)))


def _series(H: int, given: np.ndarray | None) -> list[tuple[str | None, np.ndarray]]:
    if given is not None:
        return [("", given)]
    return [*((how or "", slopes_of(H, how)) for how in _SLOPES), (None, every_second(H))]


def relative(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """Rows of a table for distances: T5's buckets (Raffel et al. 2020), or one each, clipped (Shaw et al. 2018)."""
    y = bare(outs[0])
    T = g.number("length", 0) or (y.shape[1] if y.ndim == 3 else 0)
    S = g.number("key_length", T)
    for table in g.arrays.values():
        for rows in (table, table.T) if table.ndim == 2 else ():
            H = rows.shape[1]
            seen = next(
                (
                    y.transpose(axes)
                    for axes in ((0, 1, 2), (2, 0, 1))
                    if y.ndim == 3 and y.transpose(axes).shape == (H, T, S)
                ),
                None,
            )
            if seen is None:
                continue
            side = round(T**0.5)
            if len(rows) == (2 * side - 1) ** 2 and S == T == side**2:
                # A window of two axes.  Liu et al. 2021 (arXiv:2103.14030), equation 4.
                at = np.stack(np.divmod(np.arange(T), side))
                down, across = at[:, :, None] - at[:, None] + side - 1
                yield Reading(
                    [(seen, rows[down * (2 * side - 1) + across].transpose(2, 0, 1))],
                    (("relative bias", "of a window"),),
                )
            for offset, both in product(dict.fromkeys((S - T, 0)), (True, False)):
                if len(rows) < 4 * (1 + both) // 2 + 2:
                    continue
                told: tuple[tuple[str, str], ...] = (
                    ("relative bias", "both ways" if both else "behind the query only"),
                )
                told += (("distances", "counted from the first key"),) if offset == 0 and T != S else ()
                for far in dict.fromkeys((128, *(int(n) for n in g.numbers if n > len(rows) // 2))):
                    view = biases.relative(rows, bidirectional=both, offset=offset, max_distance=far).view(
                        Shape((1,), H, T, S), np.dtype(np.float64)
                    )
                    if view is not None:
                        yield Reading([(seen, view[0])], tuple(told))
                reach = (len(rows) - 1) // 2
                distance = np.arange(S) - np.arange(T)[:, None] - offset
                for sign in (1, -1):
                    index = np.clip(sign * distance, -reach, reach) + reach
                    yield Reading(
                        [(seen, rows[index].transpose(2, 0, 1))], (("relative bias", "one for each distance"),)
                    )


def buckets(g: Given, outs: list[np.ndarray]) -> Iterator[Reading]:
    """T5's bucket of each distance key − query."""
    distance = g["distance"]
    for both, number in product((True, False), dict.fromkeys((32, *(int(n) for n in g.numbers if 4 <= n <= 256)))):
        for far in dict.fromkeys((128, *(int(n) for n in g.numbers if n > number // 2))):
            made = biases.relative(np.zeros((number, 1)), bidirectional=both, max_distance=far)
            says = f"{number}, {'both ways' if both else 'behind the query only'}, up to {far}"
            yield Reading([(outs[0], made.bucket(distance))], (("buckets", says),))  # type: ignore[attr-defined]
