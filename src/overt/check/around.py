"""Layers that hold more than attention: what shows from outside, and the attention inside by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overt.check import layouts
from overt.check.attention import Attention, Form, Outcome, difference
from overt.check.diagnosis import Diagnosis
from overt.check.findings import Findings
from overt.check.forms import MoreError, PuzzledError
from overt.check.instances import instance
from overt.check.interface import Interface
from overt.check.search import LOOSE, Trial


def check(diagnosis: Diagnosis, overrides: dict[str, str], *, inside: bool = True) -> None:
    """The stages of one candidate or, where it holds more than attention and we look inside, of the attention there."""
    from overt.check import decoding, probes
    from overt.check.recorded import consult

    probes.before(diagnosis)
    try:
        if diagnosis.base():
            diagnosis.features()
            diagnosis.extras()
            decoding.check(diagnosis)
        consult(diagnosis)
    except MoreError as more:
        # What was found inside holds nothing that was not looked at.
        found = inside and _inside(diagnosis, overrides)
        seen = consult(diagnosis, list(more.usable)[:1])
        if not found and not seen:
            raise
        for form, trials in more.usable.items():
            if _outside(diagnosis, form, trials[0]):
                break
    probes.after(diagnosis)


def _inside(diagnosis: Diagnosis, overrides: dict[str, str]) -> bool:
    """Check the attention that a layer holds; whether there is one."""
    attention, findings = diagnosis.attention, diagnosis.findings
    assert attention.instance is not None
    reply, _ = attention.session.ask({"op": "inside", "handle": attention.instance.handle})
    told = []
    for path, name, description in reply.get("parts", []):
        told.append(f"{path}, {name}")
        if description is None:
            # A library's own.
            continue
        made, arrays = attention.session.ask({"op": "part", "handle": attention.instance.handle, "path": path})
        face = Interface(description, description["parameters"], overrides)
        part = instance(made["handle"], made["parameters"], arrays, made["numbers"])
        inner = Diagnosis(Attention(attention.session, face, part), Findings(description))
        try:
            check(inner, overrides, inside=False)
        except PuzzledError:
            told[-1] += " (not understood)"
            continue
        for name, found in inner.findings.found.items():
            findings.found.setdefault(name, found)
    if told:
        findings.convention["attention inside"] = "; ".join(told)
    return any("not understood" not in one for one in told)


def _outside(diagnosis: Diagnosis, form: Form, trial: Trial) -> bool:
    """Whether samples stay apart and the future hidden, as far as changed inputs show it."""
    attention, face = diagnosis.attention, diagnosis.interface
    case = trial.case
    if case.q.shape[0] < 2:
        return False

    def rows(outcome: Outcome) -> np.ndarray | None:
        # What is around attention keeps the shape.
        taken = (layouts.take(array, form.layout, case.q.shape) for _, array, _ in outcome.outputs)
        return next((x for x in taken if x is not None), None)

    def moved(change: np.ndarray) -> np.ndarray | None:
        q = case.q + change
        k = q if case.k is case.q else case.k + change[..., :1, :]
        return rows(attention.one(form, replace(case, q=q, k=k, v=k if case.v is case.k else case.v)))

    before = rows(trial.outcome)
    # No constant, which a norm would take away again.
    noise = np.random.default_rng(6).normal(size=case.q.shape)
    other = np.concatenate([0 * noise[:1], noise[1:]])
    after = moved(other)
    if before is None or after is None:
        return False
    if difference(after[:1], before[:1]) > LOOSE:
        diagnosis.tell_batches()
        return True
    last = np.concatenate([0 * noise[..., :-1, :], noise[..., -1:, :]], axis=-2)
    after = moved(last) if face.declared_causal and case.k is case.q else None
    if after is not None and difference(after[..., :-1, :], before[..., :-1, :]) > LOOSE:
        diagnosis.findings.add("causal_missing", certain=True)
    return True
