"""The parts of attention by themselves: which part a candidate is, and softmax."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from overt.check import heads, masks, positions
from overt.check.attention import difference
from overt.check.block import Block
from overt.check.findings import Findings
from overt.check.instances import constructor, first_call
from overt.check.interface import Interface
from overt.check.search import LOOSE
from overt.check.session import Here, Session
from overt.check.steps import STEPS, softmax


def check(session: Session | Here, face: Interface, findings: Findings, overrides: dict[str, str]) -> bool:
    """Check a part of attention, if the candidate is one."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", face.name).lower()
    kind = face.description["kind"]
    if kind == "function":
        block = Block(session, face, findings)
        for pattern, test in _FUNCTIONS:
            if (
                re.search(pattern, name)
                and (not re.search(r"attention|attend|^mha|_mha", name) or re.search(r"mask$", name))
                and test(block)
            ):
                return True
        if [a.role for a in face.arguments if a.required] == ["scores"] and re.search(r"softmax|exp\(", face.code):
            return _softmax(block) or masks.masked_softmax(block)
        waves = re.search(r"\bsin\b", face.code) and re.search(r"\bcos\b", face.code)
        # e^{i p w} has both in it.
        waves = waves or re.search(r"\bsinusoid", face.prose)
        if (
            not waves
            or re.search(r"softmax|exp\(.*\bmax\(", face.code)
            or any(face.has(r) for r in ("v", "mask", "scores"))
        ):
            return False
        return (
            positions.rope(block)
            if face.has("q") or (face.has("x") and not face.has("length"))
            else positions.sinusoid(block)
        )
    if kind == "class" and re.search(r"repeat|rel\w*_?bias|relative|t5", name) and "attention" not in name:
        maker = Interface(face.description, face.description["constructor"], {})
        made = constructor(maker)
        if isinstance(made, str):
            return False
        first, given = first_call(face.description)
        reply, arrays = session.ask({"op": "build", "kwargs": made[0], "seed": 1, "first": first}, made[1] | given)
        if "error" in reply:
            findings.raised(None, reply["error"])
            return True
        block = Block(session, face, findings, reply["handle"])
        return heads.repeat(block) if "repeat" in name else positions.relative(block, arrays)
    plain = re.search(r"\bsin\b", face.code) and not re.search(r"softmax|attention|Linear", face.code)
    if (
        kind == "class"
        and (plain or re.search(r"pos.*(enc|emb)|sinus|^pe$|embed|^emb", name))
        and "attention" not in name
    ):
        return positions.module(session, face, findings, name)
    return False


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
        small = np.array([[0.0, 1.0], [2.0, 0.0]])
        small = small.reshape((1,) * (len(seen[0][0]) - 2) + small.shape) if len(seen[0][0]) > 1 else small[0]
        right = np.exp(small) / np.exp(small).sum(-1, keepdims=True)
        block.tell(best.partition(":")[0], right, small, *extra.values())
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


_FUNCTIONS: tuple[tuple[str, Callable[[Block], bool]], ...] = (
    (r"softmax", _softmax),
    (r"softmax", masks.masked_softmax),
    (r"alibi|slope", positions.slopes),
    (r"rope|rotary|rotat", positions.rope),
    (
        r"sinus|pos(ition)?(al)?_?(enc|emb)|_pe$|^pe_?|get_pe|encode_pos|pos\w*_(table|matrix)|make_pe|timing",
        positions.sinusoid,
    ),
    (r"split|separate|unpack|unfuse|qkv", heads.unpack),
    (r"split|separate|to_heads|shape_heads|transpose_qkv|divide|into_heads|heads_(of|from)", heads.split),
    (
        r"merge_?heads|combine_?heads|concat|join|unsplit|unshape|merge|from_heads|transpose_output|gather_heads|collapse",
        heads.merge,
    ),
    (r"repeat|expand|tile|group|share_kv", heads.repeat),
    (r"mask|causal|triangle|window|visible|allowed", masks.mask),
    (r"mask|pad", masks.padding),
    (r"merge|combine|join|lse", heads.merged),
)
