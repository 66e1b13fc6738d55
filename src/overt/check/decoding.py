"""Decoding with a cache against all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from overt.check import layouts
from overt.check.attention import Attention, Form, Instance, Outcome, Size, UnknownError, difference
from overt.check.diagnosis import Diagnosis
from overt.check.findings import Findings
from overt.check.instances import WIDTH
from overt.check.mistakes import name_of
from overt.check.search import LOOSE
from overt.check.steps import Case, Choice, attend, options, relevant

_LONG = Size(T=5, S=5)
# The first token, the one after the last, and what was returned for them.
Piece = tuple[int, int, np.ndarray]


def check(diagnosis: Diagnosis) -> None:
    """Prefill four tokens, decode the fifth; its output is the last of five at once."""
    face, form, attention = diagnosis.interface, diagnosis.form, diagnosis.attention
    if form.roles not in (("x",), ("q", "k", "v")) or form.layout not in ("BTD", "BHTD", "BTHD", "TD", "HTD"):
        return
    if face.has("cache") and len(re.findall(rf"\b{re.escape(face.by_role['cache'].name)}\b", face.code)) < 2:
        # It is accepted, and never read.
        return
    offset = next((r for r in ("offset", "positions") if face.has(r)), None)
    if face.has("cache"):
        outcomes = _with_cache(diagnosis, offset)
    elif offset == "offset" and attention.instance is not None:
        outcomes = _with_cache(diagnosis, offset, inner=True)
    else:
        return
    if outcomes is None:
        return
    decoded = outcomes[1]
    case = attention.case(form, _LONG)
    causal = face.has("causal")
    full = attention.case(form, _LONG, causal=form.causal or causal)
    parts = attention.predict(form, full, diagnosis.choices[0])
    expected = parts.output[..., -1:, :]
    seen = _last(diagnosis, decoded, expected.shape)
    if seen is None:
        return
    if difference(seen, expected) < LOOSE:
        diagnosis.findings.convention["cache"] = "decoding agrees with all at once"
        _chunk(diagnosis, offset, full)
        return
    first_only = attention.predict(form, _only_first(case), diagnosis.choices[0]).output[..., -1:, :]
    rotated = form.rope is not None
    if difference(seen, first_only) < LOOSE:
        diagnosis.findings.add("causal_top_left", kind="mistake")
    elif rotated:
        diagnosis.findings.add("rope_offset", certain=_proves_offset(diagnosis, seen))
    else:
        diagnosis.findings.add(
            "decode_differs",
            kind="unknown",
            message="Decoding with the cache does not give what all tokens at once give.",
            mend="Check positions, mask and order of the cached keys.",
        )  # fmt: skip


def _chunk(diagnosis: Diagnosis, offset: str | None, full: Case) -> None:
    """Two tokens after three in the cache: the first of them may not be taken for the first of all."""
    attention, form = diagnosis.attention, diagnosis.form
    outcomes = _with_cache(diagnosis, offset, inner=not diagnosis.interface.has("cache"), cut=3)
    expected = attention.predict(form, full, diagnosis.choices[0]).output[..., -2:, :]
    seen = _last(diagnosis, outcomes[1], expected.shape) if outcomes else None
    if seen is None or difference(seen, expected) < LOOSE:
        return
    T, S = full.q.shape[-2], full.k.shape[-2]
    keep = np.tri(T, S, 2 - T, dtype=bool)[None, None]
    keep[..., : T - 2, :] = True
    shifted = attention.predict(form, replace(full, causal=False, keep=keep), diagnosis.choices[0])
    if difference(seen, shifted.output[..., -2:, :]) < LOOSE:
        diagnosis.findings.add("causal_top_left", kind="mistake")
    diagnosis.findings.convention["cache"] += ", one token at a time"


def _only_first(case: Any) -> Any:
    keep = np.zeros((1, 1, case.q.shape[-2], case.k.shape[-2]), bool)
    keep[..., 0] = True
    return replace(case, keep=keep, causal=False)


def _proves_offset(diagnosis: Diagnosis, seen: np.ndarray) -> bool:
    """Whether rotating the new query (and key) from 0 gives the decoded row."""
    form, attention = diagnosis.form, diagnosis.attention
    case = attention.case(form, _LONG)
    last = replace(case, q=case.q[..., -1:, :], causal=False)
    for positions in ((0, 0), (1, 0), (3, 0), (5, 0)):
        parts = attention.predict(form, replace(last, positions=positions), diagnosis.choices[0])
        if difference(seen, parts.output) < LOOSE:
            return True
    return False


def _last(diagnosis: Diagnosis, outcome: Outcome, like: tuple[int, ...]) -> np.ndarray | None:
    for _, array, _ in outcome.outputs:
        seen = layouts.take(array, diagnosis.form.layout, like)
        if seen is not None:
            return seen
    return None


def _with_cache(
    diagnosis: Diagnosis, offset: str | None, inner: bool = False, cut: int = 4
) -> tuple[Outcome, Outcome] | None:
    face, form, attention = diagnosis.interface, diagnosis.form, diagnosis.attention
    causal = face.has("causal")
    case = attention.case(form, _LONG, causal=causal)

    def part(a: int, b: int) -> Any:
        x = case.q[..., a:b, :]
        if case.k is case.q:
            return replace(case, q=x, k=x, v=x)
        return replace(case, q=x, k=case.k[..., a:b, :], v=case.v[..., a:b, :])

    def ask(start: int, length: int, cache: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {"use_cache": {"value": True}}
        if not inner:
            asked["cache"] = cache
        if offset == "offset":
            asked["offset"] = {"value": start}
        elif offset == "positions":
            asked["positions"] = {"value": list(range(start, start + length))}
        return asked

    kinds: list[Any] = [{"value": None}] if not inner else [None]
    if not inner:
        # One that the candidate fills is the same in both calls.
        kinds += [{"value": {}, "kept": "cache"}, {"value": [], "kept": "cache"}]
    for empty in kinds:
        for item in (1, "cache") if empty == {"value": None} else (1, "cache", None) if not inner else (None,):
            carried: Any = None
            if not inner:
                carried = (
                    {"result": 0, "item": 1}
                    if item == 1
                    else dict(empty)
                    if item is None
                    else {"result": 0, "item": -1}
                )
            try:
                first = attention.call(form, part(0, cut), ask=ask(0, cut, empty))
                second = attention.call(form, part(cut, 5), ask=ask(cut, 5 - cut, carried))
            except UnknownError:
                return None
            prefill, decoded = attention.run([first, second])
            if prefill.error is None and decoded.error is None:
                return prefill, decoded
    return None


def check_steps(attention: Attention, findings: Findings, rebuild: Callable[[], Instance | None]) -> bool:
    """An object that takes one token at a time and keeps the keys: together its outputs are causal attention."""
    face = attention.interface
    roles = ("q", "k", "v") if face.has("q", "k", "v") else ("x",) if face.has("x") else ()
    if not roles or len([a for a in face.arguments if a.required]) != len(roles):
        return False
    if "prefill" in face.description["methods"] and roles == ("x",):
        return _pieces(attention, findings, rebuild, [[("prefill", 4), ("step", 1)]])
    ran = False
    for shape in ("BD", "B1D", "BH1D", "D"):
        made = attention.instance = rebuild()
        if made is None:
            return False
        flat = made.projections is not None
        form = Form("BHTD" if shape == "BH1D" else "BTD", flat, roles=roles, causal=True)
        case = attention.case(form, Size(T=4, S=4))
        if shape == "D":
            case = replace(case, q=case.q[:1], k=case.k[:1], v=case.v[:1])
        calls, T = [], 4
        for t in range(T):
            rows = {n: getattr(case, n)[..., t : t + 1, :] for n in "qkv"}
            given = {n: _one_step(x, shape) for n, x in rows.items() if n in ("q", *roles)}
            names = [a for a in face.arguments if a.required]
            kwargs = {a.name: {"array": "q" if a.role == "x" else str(a.role)} for a in names}
            calls.append(({"args": [], "kwargs": kwargs, "backend": face.description["backend"], "still": True,
                           "method": face.description["method"]}, given))  # fmt: skip
        outcomes = attention.run(calls)
        if any(o.main is None for o in outcomes):
            continue
        parts = attend(case, {})
        rows_seen = [o.main for o in outcomes if o.main is not None and o.main.size * T == parts.output.size]
        if len(rows_seen) < T:
            continue
        ran = True
        like = (*parts.output.shape[:-2], 1, parts.output.shape[-1])
        seen = np.concatenate([row.reshape(like) for row in rows_seen], axis=-2)
        steps = relevant(case) - {"align", "transpose"}
        singles = [{s: o} for s in sorted(steps) for o in options(case, s)]
        for choice in ({}, *singles):
            if difference(seen, attend(case, choice).output) < LOOSE:
                for option in choice.values():
                    findings.add(name_of(option))
                findings.convention |= {"layout": shape, "causal": "one token at a time"}
                return True
    if ran:
        findings.add(
            "unknown",
            kind="unknown",
            message="Token by token it does not give causal attention, and no known mistake gives its numbers.",
        )
    return ran


def _pieces(
    attention: Attention,
    findings: Findings,
    rebuild: Callable[[], Instance | None],
    plans: Sequence[Sequence[tuple[str, int]]],
) -> bool:
    """Five tokens in pieces, each by a method of one object that keeps the keys: together they are causal attention."""
    face = attention.interface
    name = next(a.name for a in face.arguments if a.role == "x")
    turning: tuple[str | None, ...] = (None,)
    if face.rotates:
        turning = ("half", "interleaved", None)
    ask = {a.name: {"value": True} for a in face.arguments if a.role == "use_cache"}
    seen: dict[str, list[Piece]] = {}
    for layout, plan in product(("BTD", "TD"), plans):
        made = attention.instance = rebuild()
        if made is None or made.projections is None:
            return False
        whole = attention.case(Form(layout, True, roles=("x",), causal=True), _LONG)
        calls, ends = [], [0]
        for method, length in plan:
            start = ends[-1]
            ends.append(start + length)
            x = whole.q[:, start : ends[-1]]
            given = x if layout == "BTD" else x[0] if method != "step" or length > 1 else x[0, 0]
            # The argument may have another name in another method.
            call = {"args": [{"array": name}], "kwargs": ask, "backend": face.description["backend"], "still": True}
            calls.append(({**call, "train": False, "method": method}, {name: given}))
        mains = [o.main for o in attention.run(calls)]
        width = whole.q.shape[-1]
        if all(y is not None and y.size == len(whole.q) * n * width for y, (_, n) in zip(mains, plan, strict=True)):
            rows = [y.reshape(len(whole.q), -1, width) for y in mains if y is not None]
            seen.setdefault(layout, []).extend(zip(ends, ends[1:], rows, strict=False))
    for layout, pieces in seen.items():
        whole = attention.case(Form(layout, True, roles=("x",), causal=True), _LONG)
        findings.convention |= {"layout": layout, "causal": "a prompt at once, then a few tokens at a time"}

        def gives(choice: Choice, rope: str | None, mine: list[Piece], whole: Case = whole) -> bool:
            for start, end, y in mine:
                x = whole.q[:, :end]
                case = replace(whole, q=x[:, start:], k=x, v=x, rope=rope, positions=(start, 0))
                if difference(y, attend(case, choice).output) > LOOSE:
                    return False
            return True

        for rope in turning:
            case = replace(whole, q=whole.q[:, 3:], rope=rope)
            steps = relevant(case) - {"align", "transpose"}
            singles = [{}, *({s: o} for s in sorted(steps) for o in options(case, s))]
            shifted = [{**choice, "align": "causal_top_left"} for choice in singles]
            for choice in (*singles, *shifted):
                if gives(choice, rope, pieces):
                    for option in choice.values():
                        # Here it is no question of convention: what is decoded differs.
                        findings.add(name_of(option), kind="mistake" if option == "causal_top_left" else None)
                    return True
            for choice in singles:
                if gives(choice, rope, [piece for piece in pieces if piece[0] == 0]):
                    for option in choice.values():
                        findings.add(name_of(option))
                    findings.add(
                        "rope_offset" if rope else "decode_differs",
                        kind="mistake" if rope else "unknown",
                        certain=False,
                        message=None if rope else "A step after the prompt does not give what all tokens at once give.",
                    )
                    return True
        findings.add(
            "unknown",
            kind="unknown",
            message="On a prompt it does not give causal attention, and no known mistake gives its numbers.",
        )
        return True
    return False


def check_kept(attention: Attention, findings: Findings, rebuild: Callable[[], Instance | None]) -> bool:
    """An object whose method is called again and again and remembers the keys; False where it remembers nothing."""
    face, kept = attention.interface, attention.instance
    method = str(face.description["method"])
    if [a.role for a in face.arguments if a.required] != ["x"] or face.has("cache") or kept is None:
        return False
    if not re.search(
        r"self\.\w*(k|key|v|val|cache|past)\w*\s*(=|\[|,\s*self)", face.description["body"], re.IGNORECASE
    ):
        return False
    before = dict(findings.convention)
    if _remembers(attention, rebuild, method) and _pieces(
        attention, findings, rebuild, [[(method, 4), (method, 1)], [(method, 3), (method, 2)]]
    ):
        return True
    findings.convention = before
    attention.instance = kept
    return False


def _remembers(attention: Attention, rebuild: Callable[[], Instance | None], method: str) -> bool:
    """Whether a call gives something else after another call."""
    face = attention.interface
    ask = {a.name: {"value": True} for a in face.arguments if a.role == "use_cache"}
    call = {"args": [{"array": "x"}], "kwargs": ask, "backend": face.description["backend"], "still": True}
    call |= {"train": False, "method": method}
    for shape in ((2, 3, WIDTH), (3, WIDTH)):
        x, y = np.random.default_rng(0).normal(size=(2, *shape))
        found = []
        for inputs in ((x, y), (y,)):
            attention.instance = rebuild()
            found.append(attention.run([(call, {"x": z}) for z in inputs])[-1].main)
        after, fresh = found
        if fresh is not None:
            return after is None or after.shape != fresh.shape or difference(after, fresh) > LOOSE
    return False


def _one_step(x: np.ndarray, shape: str) -> np.ndarray:
    if shape == "BH1D":
        return x
    row = x[:, 0] if x.ndim == 4 else x
    return {"B1D": row, "BD": row[:, 0], "D": row[0, 0]}[shape]
