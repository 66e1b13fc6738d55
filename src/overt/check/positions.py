"""Positions: sinusoidal encodings, rotations, slopes and biases of ALiBi, and layers that embed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from overt import biases
from overt.check.attention import difference
from overt.check.block import Block, same, shown
from overt.check.findings import Findings
from overt.check.instances import constructor
from overt.check.interface import Interface
from overt.check.report import Kind
from overt.check.session import Here, Session
from overt.check.steps import rotate, slopes_of
from overt.grid import Shape


def _exponents(table: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Angular frequency of each column of a table (T, D), and whether it is a cosine; None where one is neither."""
    points = np.arange(len(table))
    frequency, cosine = np.zeros(table.shape[1]), np.zeros(table.shape[1], bool)
    for column in range(table.shape[1]):
        y = table[:, column]
        at = np.clip(y[1], -1, 1)
        for w, f, is_cosine in (
            (np.arcsin(at), np.sin, False),
            (np.pi - np.arcsin(at), np.sin, False),
            (np.arccos(at), np.cos, True),
        ):
            if np.abs(f(points * w) - y).max() < 2e-4:
                # Small angles lose digits in the cosine; the last position has more of them.
                frequency[column], cosine[column] = w, is_cosine
                break
        else:
            return None
    return frequency, cosine


def _encoding(block: Block, table: np.ndarray) -> None:
    """Compare a table (T, D) with the sinusoidal encoding."""
    T, D = table.shape
    points, pairs = np.arange(T)[:, None], np.arange(D // 2)
    right = 10_000.0 ** (-2 * pairs / D)

    def laid(w: np.ndarray, how: str) -> np.ndarray:
        sine, cosine = np.sin(points * w), np.cos(points * w)
        parts = (cosine, sine) if "cosine first" in how else (sine, cosine)
        return np.concatenate(parts, -1) if "halves" in how else np.stack(parts, -1).reshape(T, D)

    for how in ("interleaved", "halves", "interleaved, cosine first", "halves, cosine first"):
        for w, more in ((right, ""), (10_000.0 ** (-pairs / max(D // 2 - 1, 1)), ", last wavelength 10000")):
            if np.abs(table - laid(w, how)).max() < 1e-5:
                block.findings.convention["sines and cosines"] = how + more
                return
    found = _exponents(table)
    block.findings.add(
        "pe_exponent",
        certain=found is not None,
        example={"expected": str(np.round(laid(right, "interleaved")[1], 4)), "actual": str(np.round(table[1], 4))},
    )


def sinusoid(block: Block) -> bool:
    """A function that returns a table (T, D) of sines and cosines."""
    T, D = 12, 8
    face = block.face
    given: dict[str, Any] = {}
    lengths: tuple[str, ...] = ("length", "lengths", "key_length")
    if face.has("model_dim") and not any(face.has(role) for role in lengths):
        # Beside a width, T is a length.
        lengths = (*lengths, "x")
    for a in face.arguments:
        if a.role in lengths:
            given[a.name] = T
        elif a.role in ("positions",):
            given[a.name] = np.arange(T) if a.required else None
        elif a.role in ("model_dim", "head_dim", "axis", "x") and a.required:
            given[a.name] = D
        elif a.required:
            return False
    values = [given[a.name] for a in face.arguments if given.get(a.name) is not None]
    orders = [values, [T if isinstance(v, np.ndarray) else v for v in values], values[::-1]]
    for order in orders:
        got = block.call(*order)
        table = None if not got else next((y.reshape(T, D) for y in got if y.size == T * D and y.shape[-1] == D), None)
        if table is not None:
            _encoding(block, table)
            return True
    if any(isinstance(v, np.ndarray) for v in values):
        rows = [block.call(*[n if isinstance(v, np.ndarray) else v for v in values]) for n in range(T)]
        if all(rows):
            _encoding(block, np.stack([r[0].reshape(-1) for r in rows if r]))
            return True
    block.wrong("encoding")
    return True


def module(session: Session | Here, face: Interface, findings: Findings, name: str) -> bool:
    """Layers that encode positions, and layers that embed."""
    maker = Interface(face.description, face.description["constructor"], {})
    D = 12
    made = constructor(maker, model_dim=D)
    if isinstance(made, str):
        return False
    first = {"first": np.zeros((2, 5), int)}
    named = {face.arguments[0].name: {"array": "first"}} if face.arguments else {}
    reply, arrays = session.ask({"op": "build", "kwargs": made[0], "seed": 1, "first": named}, made[1] | first)
    if "error" in reply:
        findings.raised(None, reply["error"])
        return True
    block = Block(session, face, findings, reply["handle"])
    embeddings = [row for row in reply["parameters"] if row["owner"] == "Embedding" or row["shape"] == [11, D]]
    if embeddings:
        ids = np.array([[1, 4, 2, 7, 3], [0, 5, 9, 10, 6]])
        got = block.call(ids)
        if not got:
            block.wrong("embedding")
            return True
        rows = arrays[embeddings[0]["path"]][ids]
        if got[0].shape != rows.shape:
            return False
        scales: tuple[tuple[float, Kind | None], ...] = ((D**0.5, None), (1.0, "risk"), (D**-0.5, "mistake"))
        for factor, kind in scales:
            if difference(got[0], rows * factor) < 1e-4:
                if kind:
                    findings.add("embed_scale", kind=kind)
                findings.convention["kind"] = "embedding"
                return True
        # Positions may be added: the difference of two tokens at one place is free of them.
        gap, told = got[0][0] - got[0][1], rows[0] - rows[1]
        for factor, kind in scales:
            if difference(gap, told * factor) < 1e-4:
                if kind:
                    findings.add("embed_scale", kind=kind)
                _encoding(block, (got[0] - rows * factor)[0])
                return True
        return False
    if reply["parameters"]:
        return False
    x = np.zeros((2, 10, D))
    got = block.call(x)
    if not got:
        block.wrong("encoding")
        return True
    y = got[0]
    if y.shape in ((2, 10, D), (1, 10, D), (10, D), (10, 1, D)):
        table = y.reshape(-1, 10, D)[0] if y.shape != (10, 1, D) else y[:, 0]
        if y.shape == (2, 10, D) and difference(y[1], y[0]) > 1e-9 and np.ptp(y, axis=1).max() < 1e-9:
            longer = block.call(np.zeros((10, 2, D)))
            table = longer[0][:, 0] if longer else table
        _encoding(block, table)
        ones = block.call(x + 1)
        gain = float(np.mean(ones[0] - y)) if ones and ones[0].shape == y.shape else 1.0
        findings.convention["input times"] = f"{gain:.3g}"
        return True
    return False


def rope(block: Block) -> bool:
    """A function that rotates x, or q and k, at positions, from an offset, or by given cosines and sines."""
    face = block.face
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 3, 5, 8))
    T, D = 5, 8
    trials = {"BHTD": x, "BTHD": x.swapaxes(1, 2), "BTD": x[:, 0], "TD": x[0, 0]}
    start = 3
    order = [h for h in face.layouts if h in trials] + [h for h in trials if h not in face.layouts]
    two = face.has("q", "k")
    for layout in order:
        given = trials[layout]
        for wide in (False, True):
            extra: dict[str, Any] = {}
            if face.has("cos", "sin"):
                angles = np.arange(T)[:, None] * 10_000.0 ** (-np.arange(0, D, 2) / D)
                tables = [angles, np.concatenate([angles, angles], -1), np.repeat(angles, 2, -1)]
                if _tables(block, layout, given, tables, two):
                    return True
                continue
            if face.has("positions"):
                extra["positions"] = np.arange(T) + start
                if wide:
                    extra["positions"] = np.tile(np.arange(T) + start, (given.shape[0], 1))
            elif face.has("offset"):
                extra["offset"] = start
            elif wide:
                continue
            first = 0 if not extra else start
            got = block.call(given, given, **extra) if two else block.call(given, **extra)
            if not got or got[0].shape != given.shape:
                continue
            heads = got[0].swapaxes(1, 2) if layout == "BTHD" else got[0]
            plain = x if layout in ("BHTD", "BTHD") else given
            if _named_rope(block, plain, heads, first):
                block.findings.convention["layout"] = layout
                return True
    got = block.call(x, x) if two else block.call(x)
    if got and got[0].shape == x.shape:
        block.wrong("rotation", got[0])
        return True
    return False


def _named_rope(block: Block, x: np.ndarray, y: np.ndarray, first: int) -> bool:
    points = np.arange(x.shape[-2])
    for start in dict.fromkeys((first, 0, 1, first + 1, first - 1)):
        for layout in ("half", "interleaved"):
            for sign in (1, -1):
                for how in (None, "rope_layout:half rotation", "rope_layout:interleaved rotation"):
                    if how and layout == "interleaved":
                        continue
                    if same(rotate(x, sign * (points + start), layout, how), y):
                        block.findings.convention["rope"] = layout if not how else "mixed"
                        if how:
                            example = {
                                "input": shown(x.reshape(-1, x.shape[-1])[1]),
                                "expected": shown(rotate(x, points + start, layout).reshape(-1, x.shape[-1])[1]),
                                "actual": shown(y.reshape(-1, x.shape[-1])[1]),
                            }
                            block.findings.add("rope_layout", example=example)
                        if start != first and (first or start != 1):
                            block.findings.add("rope_offset")
                        return True
    return False


def _tables(block: Block, layout: str, x: np.ndarray, tables: list[np.ndarray], two: bool) -> bool:
    """Cosines and sines are given: every table is somebody's convention, so only the rotation can be wrong."""
    seen = None
    for table in tables:
        for shaped in (
            table,
            table[None, None] if layout == "BHTD" else table[None, :, None] if layout == "BTHD" else table,
        ):
            roles = {"cos": np.cos(shaped), "sin": np.sin(shaped)}
            got = block.call(x, x, **roles) if two else block.call(x, **roles)
            if not got or got[0].shape != x.shape:
                continue
            plain, y = (a.swapaxes(1, 2) if layout == "BTHD" else a for a in (x, got[0]))
            seen = got[0]
            points = np.arange(plain.shape[-2])
            for which in ("half", "interleaved"):
                if same(rotate(plain, points, which), y):
                    block.findings.convention["rope"] = which
                    return True
    if seen is not None:
        block.wrong("rotation", seen)
        return True
    return False


def slopes(block: Block) -> bool:
    """A function of the number of heads that returns the slopes (H,) of ALiBi."""
    if block.required() != 1:
        return alibi(block)
    got = {n: block.call(n) for n in ((4, 8) if block.face.powers_of_two else (4, 8, 6, 12))}
    if not got[4]:
        return False
    flat = {n: y[0].reshape(-1) for n, y in got.items() if y and y[0].size == n}
    if 4 not in flat:
        return False
    for how in (None, "alibi_slopes:from 0", "alibi_slopes:formula", "alibi_slopes:from 0 formula"):
        if all(np.allclose(np.abs(y), slopes_of(n, how), rtol=1e-4) for n, y in flat.items()):
            if how:
                block.tell("alibi_slopes", slopes_of(4, None), 4)
            return True
    block.findings.add("alibi_slopes", certain=False)
    return True


def alibi(block: Block) -> bool:
    """A function of heads or slopes and of lengths, or of a padding mask, that returns the bias of ALiBi."""
    roles = [a.role for a in block.face.arguments if a.required]
    if "heads" not in roles and "slopes" not in roles:
        return False
    lengths = [r for r in roles if r in ("length", "lengths", "key_length", "positions", "x")]
    masked = [r for r in roles if r in ("mask", "padding")]
    if not lengths and not masked:
        return False
    best: tuple[str, ...] | None = None
    for H in (4,) if block.face.powers_of_two else (4, 6):
        T, S = (5, 5) if len(lengths) < 2 else (3, 5)
        values: list[Any] = []
        count = 0
        for a in block.face.arguments:
            if a.role in ("heads", "slopes"):
                values.append(H if a.role == "heads" else slopes_of(H, None))
            elif a.role in lengths:
                values.append((T, S)[count] if len(lengths) > 1 else T)
                count += 1
            elif a.role in masked:
                values.append(np.ones((1, S), int))
        got = block.call(*values)
        if not got or got[0].size not in (H * T * S, H * S):
            return False
        y = np.broadcast_to(got[0].reshape((H, -1, S)), (H, T, S))
        found = _bias(y, H, T, S, "slopes" in roles)
        if found is None:
            block.wrong("bias", y)
            return True
        best = tuple(dict.fromkeys([*(best or ()), *found]))
    for name in best or ():
        block.findings.add(name)
    return True


def _bias(y: np.ndarray, H: int, T: int, S: int, fixed: bool) -> tuple[str, ...] | None:
    past = np.arange(S) <= np.arange(T)[:, None] + S - T
    distance = np.arange(S) - (np.arange(T)[:, None] + S - T)
    for how in (
        (None,) if fixed else (None, "alibi_slopes:from 0", "alibi_slopes:formula", "alibi_slopes:from 0 formula")
    ):
        slopes = slopes_of(H, how)[:, None, None]
        for sign in (1.0, -1.0):
            # A constant added to a row changes nothing, and nor do the keys ahead, which a causal mask hides.
            gap = np.where(past, np.where(np.isfinite(y), y, 0) - sign * slopes * distance, np.nan)
            if np.nanmax(np.nanmax(gap, -1) - np.nanmin(gap, -1)) < 1e-4:
                return (*(("alibi_slopes",) if how else ()), *(("alibi_sign",) if sign < 0 else ()))
            unshifted = np.arange(S) - np.arange(T)[:, None]
            if T != S and np.abs(y + sign * slopes * np.abs(unshifted)).max() < 1e-4:
                return (*(("alibi_slopes",) if how else ()), *(("alibi_sign",) if sign < 0 else ()), "alibi_offset")
    return None


def relative(block: Block, arrays: dict[str, np.ndarray]) -> bool:
    """T5's bias: a row of a table (buckets, H) for each bucket of distances.  Raffel et al. 2020."""
    tables = [a for a in arrays.values() if a.ndim == 2]
    T, S = 5, 140
    got = block.call(T, S) if block.required() > 1 else block.call(S)
    if not got or len(tables) != 1:
        return False
    table = tables[0] if tables[0].shape[0] >= tables[0].shape[1] else tables[0].T
    T = T if block.required() > 1 else S
    y: np.ndarray = got[0][0] if got[0].ndim == 4 else got[0]
    y = y.transpose(2, 0, 1) if y.shape == (T, S, table.shape[1]) else y
    if y.shape != (table.shape[1], T, S):
        return False
    shape = Shape((1,), table.shape[1], T, S)
    for offset, both in product((S - T, 0), (True, False)):
        meant = biases.relative(table, bidirectional=both, offset=offset).view(shape, np.dtype(np.float64))
        if meant is not None and same(meant[0], y):
            block.findings.convention["relative bias"] = "both ways" if both else "behind the query only"
            if offset == 0 and T != S:
                block.findings.convention["distances"] = "counted from the first key"
            return True
    block.wrong("relative bias", y)
    return True
