"""The parts of attention by themselves: softmax, positions, heads split and merged, masks, merged results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from overt.check.attention import difference
from overt.check.findings import Findings
from overt.check.instances import constructor
from overt.check.interface import Interface
from overt.check.search import LOOSE
from overt.check.session import Here, Session
from overt.check.steps import STEPS, Case, attend, options, rotate, slopes_of, softmax

Arrays = dict[str, np.ndarray]


class Block:
    """Calls one function with arrays and numbers by role."""

    def __init__(self, session: Session | Here, face: Interface, findings: Findings, handle: int | None = None) -> None:
        self.session, self.face, self.findings, self.handle = session, face, findings, handle
        self.error: dict[str, Any] | None = None

    def call(self, *values: Any, **roles: Any) -> list[np.ndarray] | None:
        """Outputs for arguments in order, or by role; None where it raises."""
        arrays: Arrays = {}

        def spec(name: str, value: Any) -> dict[str, Any]:
            if isinstance(value, np.ndarray):
                arrays[name] = value
                return {"array": name}
            return {"value": value}

        args, kwargs = [spec(f"a{n}", v) for n, v in enumerate(values)], {}
        for a in self.face.arguments[len(values) :]:
            if a.role in roles:
                kwargs[a.name] = spec(a.name, roles[a.role])
        one = {
            "args": args,
            "kwargs": kwargs,
            "backend": self.face.description["backend"],
            "still": True,
            "train": False,
        }
        if self.handle is not None:
            one["method"] = self.face.description["method"]
        reply, found = self.session.ask({"op": "call", "handle": self.handle, "calls": [one]}, arrays)
        first = reply["replies"][0] if "replies" in reply else reply
        if "error" in first:
            self.error = first["error"]
            return None
        if first["changed"]:
            self.findings.add("inplace")
        return [found[o["key"]] for o in first["outputs"]]

    def wrong(self, name: str, *outputs: np.ndarray) -> None:
        """It differs from the reference, for an unknown reason."""
        if self.error is not None and not outputs:
            self.findings.raised(None, self.error)
        else:
            self.findings.add(
                "unknown", kind="unknown", message=f"This {name} gives wrong numbers, and no known mistake gives them."
            )

    def required(self) -> int:
        return sum(a.required for a in self.face.arguments)


def check(session: Session | Here, face: Interface, findings: Findings, overrides: dict[str, str]) -> bool:
    """Check a part of attention, if the candidate is one."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", face.name).lower()
    kind = face.description["kind"]
    if kind == "function":
        block = Block(session, face, findings)
        for pattern, test in _FUNCTIONS:
            if re.search(pattern, name) and not re.search(r"attention|attend|^mha|_mha", name) and test(block):
                return True
        waves = re.search(r"\bsin\b", face.code) and re.search(r"\bcos\b", face.code)
        if (
            not waves
            or re.search(r"softmax|exp\(.*max", face.code)
            or any(face.has(r) for r in ("v", "mask", "scores"))
        ):
            return False
        return _rope(block) if face.has("q") or (face.has("x") and not face.has("length")) else _sinusoid(block)
    plain = re.search(r"\bsin\b", face.code) and not re.search(r"softmax|attention|Linear", face.code)
    if kind == "class" and (plain or re.search(r"pos.*(enc|emb)|sinus|^pe$|embed", name)) and "attention" not in name:
        return _module(session, face, findings, name)
    return False


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and difference(a.astype(float), b.astype(float)) < LOOSE


def _softmax(block: Block) -> bool:
    if block.required() > 1 and not block.face.has("axis"):
        return False
    if any(block.face.has(r) for r in ("mask", "padding", "lengths", "q")) or "log_softmax" in block.face.name:
        return False
    random = np.random.default_rng(0)
    extra: dict[str, Any] = {"axis": -1} if block.face.has("axis") and block.face.by_role["axis"].required else {}
    shapes = [(3, 5), (2, 3, 5), (2, 3, 5, 7), (5,)]
    seen = [
        (s, x, y[0])
        for s in shapes
        if (x := random.normal(size=s)) is not None and (y := block.call(x, **extra)) and y[0].shape == s
    ]
    if not seen:
        block.wrong("softmax")
        return True
    whole = [
        (x.reshape((1,) * (4 - x.ndim) + x.shape), y.reshape((1,) * (4 - y.ndim) + y.shape))
        for _, x, y in seen
        if y.ndim > 1
    ]
    if not whole:
        whole = [(x.reshape(1, 1, 1, -1), y.reshape(1, 1, 1, -1)) for _, x, y in seen]

    def fits(how: str | None, x: np.ndarray, y: np.ndarray) -> bool:
        with np.errstate(all="ignore"):
            return difference(y, softmax(x, how)) < LOOSE

    if not all(fits(None, x, y) for x, y in whole):
        options = STEPS["softmax"]
        best = next((o for o in options if all(fits(o, x, y) for x, y in whole)), None)
        best = best or next((o for o in options if fits(o, *whole[0])), None)
        if best is None:
            block.wrong("softmax", seen[0][2])
            return True
        block.findings.add(best.partition(":")[0])
    shape, x, _ = seen[0]
    loud = block.call(np.full(shape, 900.0) + x, **extra)
    rows = block.call(x + (np.arange(shape[0])[:, None] * 2000.0 if len(shape) == 2 else 0), **extra)
    soft = {"softmax_missing", "no_exp_norm"} & set(block.findings.found)
    if loud and not np.isfinite(loud[0]).all() and not soft:
        block.findings.add("no_max")
    elif rows and not np.isfinite(rows[0]).all() and "softmax_global" not in block.findings.found and not soft:
        block.findings.add("global_max")
    block.findings.convention["kind"] = "softmax"
    return True


def _masked_softmax(block: Block) -> bool:
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


def _sinusoid(block: Block) -> bool:
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


def _module(session: Session | Here, face: Interface, findings: Findings, name: str) -> bool:
    """Layers that encode positions, and layers that embed."""
    maker = Interface(face.description, face.description["constructor"], {})
    D = 12
    made = constructor(maker, model_dim=D)
    if isinstance(made, str):
        return False
    reply, arrays = session.ask({"op": "build", "args": made[0], "kwargs": made[1], "seed": 1})
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
        for factor, kind in ((D**0.5, None), (1.0, "risk"), (D**-0.5, "mistake")):
            if difference(got[0], rows * factor) < 1e-4:
                if kind:
                    findings.add("embed_scale", kind=kind)  # type: ignore[arg-type]
                findings.convention["kind"] = "embedding"
                return True
        # Positions may be added: the difference of two tokens at one place is free of them.
        gap, told = got[0][0] - got[0][1], rows[0] - rows[1]
        for factor, kind in ((D**0.5, None), (1.0, "risk"), (D**-0.5, "mistake")):
            if difference(gap, told * factor) < 1e-4:
                if kind:
                    findings.add("embed_scale", kind=kind)  # type: ignore[arg-type]
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


def _rope(block: Block) -> bool:
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
                    if _same(rotate(x, sign * (points + start), layout, how), y):
                        block.findings.convention["rope"] = layout if not how else "mixed"
                        if how:
                            block.findings.add("rope_layout")
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
                if _same(rotate(plain, points, which), y):
                    block.findings.convention["rope"] = which
                    return True
    if seen is not None:
        block.wrong("rotation", seen)
        return True
    return False


def _slopes(block: Block) -> bool:
    if block.required() != 1:
        return _alibi(block)
    got = {n: block.call(n) for n in (4, 8, 6, 12)}
    if not got[4]:
        return False
    flat = {n: y[0].reshape(-1) for n, y in got.items() if y and y[0].size == n}
    if 4 not in flat:
        return False
    for how in (None, "alibi_slopes:from 0", "alibi_slopes:formula", "alibi_slopes:from 0 formula"):
        if all(np.allclose(np.abs(y), slopes_of(n, how), rtol=1e-4) for n, y in flat.items()):
            if how:
                block.findings.add("alibi_slopes")
            return True
    block.findings.add("alibi_slopes", certain=False)
    return True


def _alibi(block: Block) -> bool:
    roles = [a.role for a in block.face.arguments if a.required]
    if "heads" not in roles and "slopes" not in roles:
        return False
    lengths = [r for r in roles if r in ("length", "lengths", "key_length", "positions", "x")]
    if not lengths:
        return False
    best: tuple[str, ...] | None = None
    for H in (4, 6):
        T, S = (5, 5) if len(lengths) == 1 else (3, 5)
        values, count = [], 0
        for a in block.face.arguments:
            if a.role in ("heads", "slopes"):
                values.append(H if a.role == "heads" else slopes_of(H, None))
            elif a.role in lengths:
                values.append((T, S)[count] if len(lengths) > 1 else T)
                count += 1
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


def _split(block: Block) -> bool:
    B, T, H, d = 2, 5, 3, 4
    x = np.random.default_rng(0).normal(size=(B, T, H * d))
    got = block.call(x, H)
    if not got:
        return False
    right = x.reshape(B, T, H, d).swapaxes(1, 2)
    wrong = {"split_view": x.reshape(B, H, T, d), "split_view:d": x.reshape(B, T, d, H).transpose(0, 3, 1, 2)}
    return _reshaped(block, got[0], right, wrong)


def _merge(block: Block) -> bool:
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
            return _reshaped(block, got[0], right, wrong)
    return False


def _repeat(block: Block) -> bool:
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
            return _reshaped(block, y, np.repeat(x, r, 1), {"gqa_tile": np.tile(x, (1, r, 1, 1))})
    got = block.call(x, r)
    if got:
        block.findings.add("gqa_repeat_wrong_axis")
        return True
    return False


def _reshaped(block: Block, y: np.ndarray, right: np.ndarray, wrong: dict[str, np.ndarray]) -> bool:
    folded = [
        right.reshape(-1, *right.shape[2:]),
        right.swapaxes(0, 1).reshape(-1, *right.shape[2:]),
        right.swapaxes(0, 1),
        right.swapaxes(1, 2),
    ]
    if right.ndim == 4 and y.ndim == 3:
        wrong = {n: a.reshape(-1, *a.shape[2:]) for n, a in wrong.items()}
    if _same(y, right):
        return True
    for name, array in wrong.items():
        if _same(y, array):
            block.findings.add(name.partition(":")[0])
            return True
    if right.ndim == 4 and any(_same(y, f) for f in folded):
        block.findings.convention["folded"] = str(y.shape)
        return True
    block.wrong("reshape", y)
    return True


def _mask(block: Block) -> bool:
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

    reaches: list[tuple[int | None, str | None]] = [(None, None)]
    if window is not None:
        reaches = [(window, None), (window - 1, "convention"), (window + 1, "mistake"), (window // 2, None)]
    declared = (
        "drop"
        if re.search(
            r"true (means?|=|:|is|where|for)?\s*(masked|hidden|blocked|may not)|block|forbid", block.face.prose
        )
        else None
    )
    told = (
        "keep"
        if re.search(
            r"true (means?|=|:|is|where|for)?\s*(keep|kept|visible|may attend|allowed|attend)"
            r"|1 (=|means|for|where) (keep|visible|allowed)",
            block.face.prose,
        )
        else declared
    )
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
                                    block.findings.add("mask_inverted")
                            if shift:
                                block.findings.add("causal_off_by_one")
                            if align == 0 and any(t != s for _, t, s, _ in tables):
                                block.findings.add("causal_top_left")
                            if kind:
                                block.findings.add("window_off_by_one", kind=kind)  # type: ignore[arg-type]
                            return True
    block.wrong("mask", tables[0][0])
    return True


def _merged(block: Block) -> bool:
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


_FUNCTIONS: tuple[tuple[str, Callable[[Block], bool]], ...] = (
    (r"softmax", _softmax),
    (r"softmax", _masked_softmax),
    (r"alibi|slope", _slopes),
    (r"rope|rotary|rotat", _rope),
    (r"sinus|pos(ition)?(al)?_?(enc|emb)|_pe$|^pe_?|get_pe|encode_pos|pos\w*_(table|matrix)|make_pe|timing", _sinusoid),
    (r"split|separate|to_heads|shape_heads|transpose_qkv|divide|into_heads|heads_(of|from)", _split),
    (
        r"merge_?heads|combine_?heads|concat|join|unsplit|unshape|merge|from_heads|transpose_output|gather_heads|collapse",
        _merge,
    ),
    (r"repeat|expand|tile|group|share_kv", _repeat),
    (r"mask|causal|triangle|window|visible|allowed", _mask),
    (r"merge|combine|join|lse", _merged),
)
