"""Samples by themselves: along the first axis of a batch, or behind each other in one row of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.report import Kind
from overt.check.text.interface import Interface
from overt.check.text.shapes import shapes
from overt.check.varied.asking import Answer, Caller, Way, differ

# Samples are said to look at each other.
_AMONG = (
    r"intersample|\b(attention|attends?|looks?|runs?) (over|across|among|between|at) (the |all )?"
    r"(b\b(?! ?,)|batch\b(?! ?first)|other samples)"
)
# What says of each token in which sequence it lies.
_NUMBERED = "searchsorted|bucketize|repeat_interleave|cumsum"


def check(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Samples that change what others come to."""
    _samples(caller, guess, facts, findings)
    _others(caller, guess, findings)
    _pieces(caller, guess, facts, findings)


def windows(caller: Caller, masks: Sequence[Way], findings: Findings) -> None:
    """A mask for each window of an image, where the windows of one image are said to lie behind those of another.

    Then two images that are one and the same come to what that does by itself, twice.
    """
    told = shapes(caller.face.shaped, [a.name for a in caller.face.arguments])
    first = {path[0]: shape.axes[0] for path, shape in told.items() if len(path) == 1 and len(shape.axes) > 1}
    for way in masks:
        mask = next((n for n, kind in way.guess.by_name.items() if calls.is_mask(kind) and n in first), "")
        given = {name: x for name, x in caller.arrays(way.guess).items()
                 if mask and re.split(r" *[*·×] *", first.get(name, ""))[1:] == [first[mask]]}  # fmt: skip
        if not given:
            continue
        # One image behind the other, or each window twice.
        pairs = {n: np.concatenate([x, x]) for n, x in given.items()}, {n: np.repeat(x, 2, 0) for n, x in given.items()}
        plain, whole, each = caller.ask([way, *(replace(way, arrays={**way.arrays, **some}) for some in pairs)])
        if plain.failed or whole.failed or each.failed or not plain.outputs:
            continue
        wanted = [np.concatenate([plain.outputs[0]] * 2), np.repeat(plain.outputs[0], 2, 0)]
        astray = [differ(one, replace(one, outputs=[x])) for one, x in zip((whole, each), wanted, strict=True)]
        if astray == [True, False]:
            says = "Of several images, whose windows are said to lie together, windows get the masks of others."
            look = rf"\b{mask}\.(?!shape)(?!size)\w+\(|repeat\w*\(.*\b{mask}\b|tile\(.*\b{mask}\b|\b{mask}\["
            findings.add("mask_fold_order", message=says, look=look)
            return


def _samples(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Attention along the first axis, where the samples are: what one of them is changes what others come to."""
    face, given = caller.face, caller.arrays(guess)
    kinds = guess.by_name
    lies = {name: calls.axes_of(kinds[name])[:1] for name in given}
    # Where nothing has samples, these were taken for positions.
    letters = "TS" if face.batches_first and ("B",) not in lies.values() else "B"
    first = [name for name, axis in lies.items() if axis in [*zip(letters)]]
    rows = {len(given[name]) for name in first} - ({guess.lengths.T, guess.lengths.S} if letters == "B" else set())
    along = [span for span in facts.get("spans", ()) if span["keys"] in rows]
    if not along and face.batches_first:
        # Samples may be folded with something else that they have; what is as long as an axis is that.
        own = {length for x in given.values() for length in x.shape[1:]}
        along = [s for s in facts.get("spans", ()) if s["fused"] and s["keys"] not in own
                 and any(s["keys"] % n == 0 for n in rows if n > 1)]  # fmt: skip
    rank = min((given[name].ndim for name in first), default=0)
    if not along or face.batches_first is False or (letters == "TS" and rank < 3):
        return
    if "fold_batch_head_swap" in findings.found:
        # Samples exchange their heads, wherever they attend.
        return
    # The first sample becomes the second once more.
    other = {name: np.concatenate([given[name][1:2], given[name][1:]]) for name in first}
    plain, moved = caller.ask([Way(guess), Way(guess, arrays=other)])
    # What is read at one place that all samples share is the same whatever a sample is.
    alike = bool(facts.get("weighs several")) and not differ(plain, moved)
    others = differ(plain.part(1), moved.part(1)) or alike
    if not plain.outputs or moved.failed or len(plain.outputs[0]) not in rows or not others:
        return
    # A window may be as long as there are samples by chance: of twice as many it does not become twice as long.
    (twice,) = caller.ask([Way(guess, {n: np.concatenate([given[n]] * 2) for n in first}, extra={"record": {}})])
    spans = twice.judged.get("facts", {}).get("spans", ())
    if spans and not {span["keys"] for span in spans} & {2 * span["keys"] for span in along}:
        return
    # What takes another axis for the sequence was built so.
    built = along[0]["fused"] and "MultiheadAttention(" in face.text
    line = None if built else along[0]["line"]
    meant = re.search(_AMONG, " ".join((face.described + face.description.get("told", "")).lower().split()))
    kind: Kind | None = None if face.batches_first and not meant else "convention"
    findings.add("batch_first", kind=kind, line=line)


def _others(caller: Caller, guess: Guess, findings: Findings) -> None:
    """Samples that read the first one and none of their own, where this reads its own, as by numbers within samples."""
    given, kinds = caller.arrays(guess), guess.by_name
    if findings.wrong or not _has_samples(caller.face):
        return
    for name in (name for name, x in given.items() if x.dtype.kind == "f" and kinds[name][:2] in ("BT", "BS")):
        if min(given[name].shape[:2]) < 2:
            return
        ways = [Way(guess)]
        # All of the first sample, and all but the first position of it, and of the second one.
        for sample, start in ((0, 0), (0, 1), (1, 1)):
            other = given[name].copy()
            other[sample, start:] = np.random.default_rng(7).normal(size=other[sample, start:].shape)
            ways.append(Way(guess, arrays={name: other}))
        plain, *moved = caller.ask(ways)
        if (
            plain.failed
            or not plain.outputs
            or plain.outputs[0].shape[:2] != given[name].shape[:2]
            or any(x.failed for x in moved)
        ):
            return
        first, second = (replace(plain, outputs=[plain.outputs[0][sample, :1]]) for sample in (0, 1))
        at = [replace(x, outputs=[x.outputs[0][sample, :1]]) for x, sample in zip(moved, (1, 0, 1), strict=True)]
        if differ(second, at[0]) and differ(first, at[1]) and not differ(second, at[2]):
            says = f"Of {name}, each sample reads the first sample, and no other position of its own."
            findings.add("unknown", message=says)
            return


def _pieces(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Sequences behind each other in one row, one of which changes what another comes to."""
    given, kinds = caller.arrays(guess), guess.by_name
    bounds = [given[name] for name in given if kinds[name] in ("bounds", "bounds in T")]
    if findings.wrong or not bounds or any(not np.array_equal(bounds[0], other) for other in bounds):
        return
    cut, length = int(bounds[0][1]), int(bounds[0][-1])
    ways = [Way(guess)]
    for some in (slice(cut), slice(cut, None)):
        other = {name: x.copy() for name, x in given.items() if x.dtype.kind == "f" and len(x) == length}
        for x in other.values():
            x[some] = np.random.default_rng(7).normal(size=x[some].shape)
        ways.append(Way(guess, arrays=other))
    plain, first, second = caller.ask(ways)
    if any(x.failed or not x.outputs or len(x.outputs[0]) != length for x in (plain, first, second)):
        return

    def part(answer: Answer, some: slice) -> Answer:
        return replace(answer, outputs=[answer.outputs[0][some]])

    if differ(part(plain, slice(cut, None)), part(first, slice(cut, None))) or differ(
        part(plain, slice(cut)), part(second, slice(cut))
    ):
        says = "Of sequences that lie behind each other in one row, one changes what another comes to."
        told = re.search(_NUMBERED, caller.face.code)
        line = None if told else next((span["line"] for span in facts.get("spans", ())), None)
        findings.add("unknown", message=says, line=line, look=_NUMBERED)


def _has_samples(face: Interface) -> bool:
    """Whether the first axis is said to be that of samples, by it or by what it uses."""
    told = (face.description.get("told", "") + face.description.get("around", "")).lower()
    shape = r"[(\[]\s*(b|bs|bsz|n_?batch|batch(_?size)?)\s*,\s*[\w*]+\s*,"
    return bool(face.batches_first or (face.batches_first is None and re.search(shape, told)))
