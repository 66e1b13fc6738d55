"""Decoding with a cache against all at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check import layouts
from overt.check.attention import Attention, Form, Instance, Outcome, Size, UnknownError, difference
from overt.check.diagnosis import Diagnosis
from overt.check.findings import Findings
from overt.check.mistakes import name_of
from overt.check.search import LOOSE
from overt.check.steps import attend, options, relevant

_LONG = Size(T=5, S=5)


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


def _with_cache(diagnosis: Diagnosis, offset: str | None, inner: bool = False) -> tuple[Outcome, Outcome] | None:
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
        kinds += [{"value": {}}, {"value": []}]
    for empty in kinds:
        for item in (1, "cache", None) if not inner else (None,):
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
                first = attention.call(form, part(0, 4), ask=ask(0, 4, empty))
                second = attention.call(form, part(4, 5), ask=ask(4, 1, carried))
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
        return _prefilled(attention, findings, rebuild)
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


def _prefilled(attention: Attention, findings: Findings, rebuild: Callable[[], Instance | None]) -> bool:
    """Four tokens at once by prefill and the fifth by step: together they are causal attention."""
    face = attention.interface
    name = next(a.name for a in face.arguments if a.role == "x")
    turning: tuple[str | None, ...] = (None,)
    if re.search(r"rope|rotary|rotate", face.text, re.IGNORECASE):
        turning = ("half", "interleaved", None)
    for layout in ("BTD", "TD"):
        made = attention.instance = rebuild()
        if made is None or made.projections is None:
            return False
        form = Form(layout, True, roles=("x",), causal=True)
        whole = attention.case(form, _LONG)
        calls = []
        for method, rows in (("prefill", whole.q[:, :4]), ("step", whole.q[:, 4:])):
            given = rows if layout == "BTD" else rows[0] if method == "prefill" else rows[0, 0]
            # The argument of prefill may have another name.
            call = {"args": [{"array": name}], "kwargs": {}, "backend": face.description["backend"], "still": True}
            calls.append(({**call, "train": False, "method": method}, {name: given}))
        outcomes = attention.run(calls)
        mains = [o.main for o in outcomes]
        if mains[0] is None or mains[1] is None:
            continue
        prompt = replace(whole, q=whole.q[:, :4], k=whole.k[:, :4], v=whole.v[:, :4])
        for rope in turning:
            case, first = replace(whole, rope=rope), replace(prompt, rope=rope)
            steps = relevant(case) - {"align", "transpose"}
            for choice in ({}, *({s: o} for s in sorted(steps) for o in options(case, s))):
                expected = attend(first, choice).output
                if mains[0].size != expected.size or difference(mains[0].reshape(expected.shape), expected) > LOOSE:
                    continue
                for option in choice.values():
                    findings.add(name_of(option))
                findings.convention |= {"layout": layout, "causal": "a prompt at once, then one token at a time"}
                later = {s: o for s, o in choice.items() if s not in ("causal", "diagonal", "mask")}
                last = attend(case, later).output[:, 4:]
                if mains[1].size == last.size and difference(mains[1].reshape(last.shape), last) < LOOSE:
                    return True
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


def _one_step(x: np.ndarray, shape: str) -> np.ndarray:
    if shape == "BH1D":
        return x
    row = x[:, 0] if x.ndim == 4 else x
    return {"B1D": row, "BD": row[:, 0], "D": row[0, 0]}[shape]
