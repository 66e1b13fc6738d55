"""The ways in which a candidate may be called."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

from overt.check import layouts
from overt.check.attention import Attention, Form
from overt.check.interface import Interface

# Shapes that masks come in, by role.
SHAPES = {
    "mask": ("B1TS", "BTS", "TS", "BS", "B11S", "B1S", "FTS", "1TS"),
    "padding": ("BS", "B11S", "B1S", "BTS", "B1TS", "TS", "S"),
    "lengths": ("lengths",),
}


class PuzzledError(Exception):
    """No way was found to call the candidate; the message says what is missing."""


class MoreError(PuzzledError):
    """A layer that holds more than attention; ``usable`` are the ways in which it ran, with what came out."""

    def __init__(self, message: str, usable: dict[Form, list[Any]]) -> None:
        super().__init__(message)
        self.usable = usable


def forms(attention: Attention, asked: str | None) -> list[Form]:
    """Ways to call, the likelier first; in the layout asked for, where there is one."""
    face, instance = attention.interface, attention.instance
    roles = _roles(face)
    projected = instance is not None and instance.projections is not None
    weights = face.has("params") or any(r[0] in "Wb" and r not in ("base", "bias") for r in face.by_role)
    flat = [True] if projected or weights or face.has("heads") else [False]
    if instance is not None and not projected:
        flat = (
            [True, False]
            if instance.heads > 1 and roles[0] == "x"
            else [False, True]
            if instance.heads > 1
            else [False]
        )
    if face.has("heads") and not weights and not projected:
        flat = [True, False]
    rotary: list[str | None] = [None]
    if face.rotates:
        rotary = ["half", "interleaved", None]
    alibi = [True, False] if re.search(r"alibi", face.text, re.IGNORECASE) and not face.has("slopes") else [False]
    causal = [True] if face.declared_causal else [False, True]
    if face.has("causal"):
        causal = [False]
    elif face.has("window"):
        causal = [False, True]
    cosine = [True, False] if re.search(r"cosine|cos_sim|linalg\.norm|normalize\(", face.text) else [False]
    surroundings: list[tuple[str | None, bool]] = [(None, False)]
    if instance is not None and instance.norm is not None:
        surroundings = [(n, r) for n in (None, "before", "after") for r in (False, True)]
    elif instance is not None:
        surroundings = [(None, False), (None, True)]
    turned = (
        [False, True] if (instance is None and weights) or (instance is not None and instance.turnable) else [False]
    )
    # Weights with an axis of heads stand in einsum with three letters, or are told of with three axes.
    apart: list[tuple[tuple[str, str] | None, bool]] = [(None, False)]
    three = r"\bw\w*[^\n(]*\(\s*(n_?|num_?)?h(eads)?\s*,\s*\w+\s*,\s*\w+\s*\)"
    einsum = r"einsum\(\s*[\"'][a-zA-Z.]+\s*,\s*[a-zA-Z]{3}\s*->"
    if weights and instance is None and (re.search(einsum, face.code) or re.search(three, face.prose)):
        apart = [*product((("HDK", "HKD"), ("HDK", "HDK"), ("DHK", "HKD")), (False, True)), *apart]
    alone = r"\b(k|v|keys?|values?|kv)\b[^\n]{0,20}[\[(]\s*\w+\s*,\s*(1\s*,\s*\w+|\w+\s*,\s*1)\s*,\s*\w+\s*[\])]"
    if not weights and instance is None and "v" in roles and re.search(alone, face.prose):
        # One key head, which keeps its axis.
        apart = [(None, True), (None, False)]
    returns = ["weights", "output"] if roles == ("q", "k") else ["output"]
    if roles in (("q", "context"), ("x", "context")):
        returns = ["output", "weights"]
    masks = _required(face)
    hinted = face.layouts
    found = []
    for is_flat in flat:
        order = list(layouts.FLAT if is_flat else layouts.HEADS)
        if not is_flat and face.has("heads"):
            order = [o for o in order if layouts.sizes(o, False)[1]]
        if asked:
            order = [asked]
        else:
            told = [h for h in hinted if h in order]
            order = told + [o for o in order if o not in told]
        if "k" not in roles:
            order = [o for o in order if o != "BHTD-BSD"]
        if not asked and not re.search(r"channel|conv|bct", face.text, re.IGNORECASE):
            order = [o for o in order if o != "BDT"]
        if roles in (("x",), ("qkv",)):
            order = [o for o in order if o not in ("BD", "D", "1BD")]
        for layout, c, a, rope, (norm, residual), t, r, (kind, shape, number), cos, (axes, one) in product(
            order, causal, alibi, rotary, surroundings, turned, returns, masks, cosine, apart
        ):
            if axes and (t or layout not in ("BTD", "TD")):
                continue
            form = Form(layout, is_flat, kind, shape, number, t, norm, residual, r, roles, rope, c, a, cos)
            found.append(replace(form, apart=axes, one_key=one))
    return found


def _roles(face: Interface) -> tuple[str, ...]:
    """What the arrays that a candidate takes are."""
    for roles in (
        ("q", "k", "v"),
        ("qkv",),
        ("q", "kv"),
        ("q", "context"),
        ("x", "context"),
        ("q", "k"),
        ("x",),
        ("q",),
    ):
        if face.has(*roles):
            return roles
    raise PuzzledError(
        f"cannot tell which argument of {face.name} is what: name them with --argument, "
        "such as --argument a=q --argument b=k --argument c=v"
    )


def _required(face: Interface) -> list[tuple[str, str, bool]]:
    """Kind, shape and number of masks that must be given; one of none where none must."""
    for name in ("mask", "padding"):
        if face.has(name) and face.by_role[name].required:
            # All visible under any reading: how the mask is read is found out later.
            kinds = ["keep", "drop", "additive"]
            return [(k, s, n) for s in SHAPES[name] for k in kinds for n in (False, True)]
    if face.has("lengths") and face.by_role["lengths"].required:
        return [("keep", "lengths", False)]
    return [("keep", "TS", False)]
