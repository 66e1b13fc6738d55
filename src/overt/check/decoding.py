"""Decoding with a cache against all at once, for what names and layouts explain."""

from __future__ import annotations

import numpy as np

from overt.check import continuing
from overt.check.attention import Attention, difference
from overt.check.calls import Guess, Lengths
from overt.check.diagnosis import Diagnosis
from overt.check.instances import HEADS, WIDTH
from overt.check.search import LOOSE

_KINDS = {"BTD": "BTW", "BHTD": "BHTD", "BTHD": "BTHD", "TD": "TW", "HTD": "HTD"}
_LENGTHS = Lengths(2, HEADS, 5, 5, WIDTH // HEADS, WIDTH)


def check(diagnosis: Diagnosis) -> None:
    """A call that was understood, made in pieces."""
    face, form, instance = diagnosis.interface, diagnosis.form, diagnosis.attention.instance
    if form.roles not in (("x",), ("q", "k", "v")) or form.layout not in _KINDS:
        return
    kinds = [((face.by_role[role].name,), _KINDS[form.layout]) for role in form.roles]
    for argument in face.arguments:
        if argument.required and argument.role in ("offset", "cache"):
            kinds.append(((argument.name,), "0" if argument.role == "offset" else "None"))
        elif argument.required and argument.role not in form.roles:
            return
    guess = Guess(tuple(kinds), _LENGTHS)
    handle = instance.handle if instance is not None else None
    continuing.Continued(diagnosis.attention.session, face, handle, guess).check(diagnosis.findings)


def remembers(attention: Attention) -> bool:
    """Whether a call gives something else after another call, and not by chance."""
    face = attention.interface
    if attention.instance is None or [a.role for a in face.arguments if a.required] != ["x"]:
        return False
    name = next(a.name for a in face.arguments if a.role == "x")
    for shape in ((2, 3, WIDTH), (3, WIDTH)):
        x, y = np.random.default_rng(0).normal(size=(2, *shape))
        flags = {a.name: {"value": True} for a in face.arguments if a.role == "use_cache"}
        call = {"args": [], "kwargs": {name: {"array": name}} | flags, "backend": face.description["backend"],
                "still": True, "train": False, "method": face.description["method"]}  # fmt: skip
        calls = [({**call, "fresh": first}, {name: z}) for z, first in ((x, True), (y, False), (y, True), (y, True))]
        _, after, fresh, again = (outcome.main for outcome in attention.run(calls))
        if fresh is not None and again is not None:
            differs = after is None or after.shape != fresh.shape or difference(after, fresh) > LOOSE
            return differs and np.array_equal(fresh, again)
    return False
