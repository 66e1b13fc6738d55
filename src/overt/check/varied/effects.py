"""What a call does beside its numbers: gradients, memory, dtypes, prints, names that it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess, is_mask
from overt.check.findings import Findings
from overt.check.text.interface import Interface
from overt.check.varied.asking import Caller, Way
from overt.check.varied.beside import Made

# Lengths between which memory is seen to grow, and those beyond the blocks of any loop.
_LENGTHS, _BEYOND = (64, 256), (1024, 2048)
# Seconds after which no longer call is made, and that one may take that is; the length of a step, and how far a slope
# may be off.
_SLOW, _SLOWEST, _STEP, _OFF = 0.5, 1.0, 1e-5, 1e-3
# Methods that may give gradients, of how many numbers at most, and how alike to the slope what is meant for it is.
_METHODS, _WIDEST, _MEANT = 8, 500, 0.5


def check(made: Made, caller: Caller, guess: Guess, findings: Findings) -> None:
    """Everything that a call does beside what it returns."""
    _read(caller.face, findings)
    if caller.ask([Way(guess)])[0].printed:
        findings.add("prints")
    if {"dropout_eval", "state", "unknown"} & set(findings.found):
        return
    _dtype(caller, guess, findings)
    _own_width(made, caller, guess, findings)
    _gradients(caller, guess, findings)
    _by_hand(caller, guess, findings)
    _memory(made, caller, guess, findings)


def _read(face: Interface, findings: Findings) -> None:
    """Globals that are read instead of arguments which they are named after, and names that are no more."""
    if re.search(r"np\.infty", face.code):
        findings.add("removed_name")
    for name, argument in face.misread.items():
        says = f"It reads the global {name} instead of its argument {argument}."
        findings.add("global_read", message=says, mend=f"Use {argument} in the body.", look=rf"\b{name}\b")


def _dtype(caller: Caller, guess: Guess, findings: Findings) -> None:
    """float32 that goes in and comes out as something wider."""
    # What the module makes itself is as wide as it likes.
    made = any(kind[:3] == "by " for _, kind in guess.kinds)
    # Numbers of Python have one width.
    plain = caller.face.description["backend"] == "python"
    if caller.handle is not None or made or plain or guess.dtype not in ("float64", "float32"):
        return
    answer = caller.ask([Way(replace(guess, dtype="float32"))])[0]
    got = next((one["dtype"] for one in answer.reply.get("outputs", ())), "float32")
    if got not in ("float32", "int"):
        findings.add("dtype_changed", message=f"float32 goes in and {got} comes out.")


def _own_width(made: Made, caller: Caller, guess: Guess, findings: Findings) -> None:
    """A fill that half precision has no number for, in what holds such numbers unless it is told."""
    own = made.other(caller, {}, own_width=True) if caller.handle in made.narrow else None
    for answer in own.ask([Way(replace(guess, dtype=dtype)) for dtype in ("float32", "float16")]) if own else ():
        if "without overflow" in answer.reply.get("error", {}).get("message", ""):
            findings.add("mask_fp16_overflow", kind="mistake", line=answer.reply["error"]["line"])


def _gradients(caller: Caller, guess: Guess, findings: Findings) -> None:
    """Gradients that are cut, and gradients that are not the slope of the output."""
    backend = caller.face.description["backend"]
    rounded = findings.found.get("softmax_low_precision")
    if backend != "torch" or guess.dtype != "float64" or (rounded is not None and rounded.kind != "risk"):
        return
    # What is compared with 0, as a mask of numbers is, has no slope.
    masks = {".".join(path) for path, kind in guess.kinds if is_mask(kind)}
    names = [n for n, x in caller.arrays(guess).items() if x.dtype.kind == "f" and n not in masks]
    answer = caller.ask([Way(guess, extra={"grad": True})])[0]
    if answer.failed or not answer.outputs or answer.reply.get("gradients") is None:
        # Complex numbers have none that are looked at.
        return
    slopes = answer.gradients
    without = [n for n in names if (g := slopes.get(n)) is None or not np.abs(g).max(initial=0) > 0]
    # What changes nothing has no gradient either.
    cut = [n for n in without if abs(_slope(caller, guess, n) or 0.0) > _OFF]
    if cut:
        # Of a memory, or of what nobody knows, it may be cut on purpose.
        asking = {a.name for a in caller.face.arguments if a.role in ("q", "k", "v", "x", "qkv")}
        chosen = re.search(r"no_grad|inference_mode|\.tolist\(", caller.face.whole) or not asking & set(cut)
        says = f"No gradient reaches {', '.join(cut)}: it cannot be trained through."
        findings.add("gradient_cut", kind="risk" if chosen else None, message=says)
        return
    for name in names:
        slope, gradient = _slope(caller, guess, name), slopes.get(name)
        if slope is None or gradient is None:
            continue
        if _is_slope(gradient, slope):
            continue
        # What somebody takes out of the gradient, such as the mean of a series, is meant.
        whole = caller.ask([Way(guess, extra={"grad": True, "attached": True})])[0].gradients.get(name)
        chosen = whole is not None and _is_slope(whole, slope)
        # So is what is kept past all accounts.
        past = bool(re.search(r"\.data\b *(=(?!=)|\[|\.)", caller.face.whole))
        # Beside the lowest number a score is lost, and has a gradient still, in rows that see nothing.
        if any(_agrees(caller, guess, name, dict.fromkeys(masks, seen)) for seen in (0, 1) if masks):
            continue
        why = ": detach() leaves a part of it out" if chosen else ": .data goes past it" if past else ""
        says = f"The gradient of {name} is not the slope of the output{why}."
        findings.add("gradient_wrong", kind="risk" if chosen or past else None, message=says)
        return


def _agrees(caller: Caller, guess: Guess, name: str, masks: Mapping[str, int]) -> bool:
    """Whether a gradient is the slope where masks hide nothing, one of 0 or of 1 for them."""
    given = caller.arrays(guess)
    way = Way(guess, {mask: np.full_like(given[mask], seen) for mask, seen in masks.items()}, extra={"grad": True})
    gradient = caller.ask([way])[0].gradients.get(name)
    slope = _slope(caller, guess, name, way.arrays)
    return gradient is not None and slope is not None and _is_slope(gradient, slope)


def _by_hand(caller: Caller, guess: Guess, findings: Findings) -> None:
    """Another method that gives gradients after a call: what is linear in one array, and goes with what was called."""
    face = caller.face
    if caller.handle is None or face.description["backend"] != "numpy" or guess.dtype != "float64":
        return
    given = {name: x for name, x in caller.arrays(guess).items() if x.dtype.kind == "f"}
    plain = caller.ask([Way(guess)])[0]
    if plain.failed or len(plain.outputs) != 1 or len(given) != 1:
        return
    ((name, array),) = given.items()
    ramp = np.linspace(-1, 1, plain.outputs[0].size).reshape(plain.outputs[0].shape)
    for method in [m for m in face.description["methods"] if m != face.description["method"]][:_METHODS]:
        ways = (array, ramp), (array, 2 * ramp), (array + _step(array.shape) / _STEP, ramp)
        once, twice, other = (_back(caller, guess, method, name, x, y) for x, y in ways)
        if once is None or twice is None or other is None or not np.allclose(2 * once, twice):
            continue
        if np.allclose(once, other) or once.size > _WIDEST:
            continue
        unit = np.eye(array.size).reshape(-1, *array.shape) * _STEP
        answers = caller.ask([Way(guess, {name: array + sign * one}) for one in unit for sign in (1, -1)])
        if any(answer.failed for answer in answers):
            return
        sums = np.array([(answer.outputs[0] * ramp).sum() for answer in answers]).reshape(-1, 2)
        slope, told = (sums[:, 0] - sums[:, 1]) / (2 * _STEP), once.ravel()
        length = np.linalg.norm(slope) * np.linalg.norm(told)
        if not length or abs(slope @ told) < _MEANT * length:
            # What has nothing to do with the slope is no gradient.
            continue
        if np.abs(slope - told).max() <= _OFF * np.abs(slope).max():
            findings.entered("gradient", f"{method} gives the slope of the output")
            return
        lines = face.description["source"].splitlines()
        at = next((n for n, text in enumerate(lines) if re.match(rf"\s*def {re.escape(method)}\b", text)), None)
        findings.add(
            "gradient_wrong", kind="unknown", line=None if at is None else face.description["line"] + at,
            message=f"What {method} gives after a call is not the slope of the output.",
            mend="Compare it with (f(x + h) - f(x - h)) / 2h, and each part of it by itself.",
        )  # fmt: skip
        return


def _back(
    caller: Caller, guess: Guess, method: str, name: str, array: np.ndarray, given: np.ndarray
) -> np.ndarray | None:
    """What a method gives for an array, after a call, if it is as large as what was called."""
    specs, kwargs, arrays = calls.specs(guess, caller.face)
    first = caller.spec(specs, kwargs, dtype=guess.dtype, fresh=True)
    then = caller.spec([{"array": " given"}], {}, dtype=guess.dtype, fresh=False, method=method)
    request = {"op": "call", "handle": caller.handle, "calls": [first, then | {"guess": True}]}
    reply, out = caller.session.ask(request, {**arrays, name: array, " given": given})
    told = reply.get("replies", [{}])[-1].get("outputs", ())
    found = next((out[one["key"]] for one in told if tuple(one["shape"]) == array.shape), None)
    return found if found is not None and np.isfinite(found).all() and found.any() else None


def _is_slope(gradient: np.ndarray, slope: float) -> bool:
    told = float((gradient * _step(gradient.shape)).sum()) / _STEP
    return abs(slope - told) <= _OFF * max(abs(slope), abs(told), 0.1)


def _step(shape: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape) * _STEP


def _slope(caller: Caller, guess: Guess, name: str, others: Mapping[str, np.ndarray] | None = None) -> float | None:
    """How the sum of the outputs, weighted from -1 to 1, grows along one direction; None where it is not known.

    Where something inside is less than float64, steps of two lengths give two slopes; where there is a jump, as at the
    zeros of a mask, those to either side are not alike.
    """
    array = caller.arrays(guess)[name]
    steps = [length * _step(array.shape) for length in (1, -1, 4, -4, 0)]
    answers = caller.ask([Way(guess, {**(others or {}), name: array + step}) for step in steps])
    kinds = {one["dtype"] for answer in answers for one in answer.reply.get("outputs", ())}
    if any(answer.failed for answer in answers) or kinds != {"float64"}:
        return None
    ends = answers[-1].outputs
    if len({tuple(x.shape for x in answer.outputs) for answer in answers}) > 1:
        return None

    def grown(outputs: Sequence[np.ndarray]) -> float:
        # What is the same in all, such as the number that fills hidden scores, costs no digits.
        return sum(
            float(((x - y) * np.linspace(-1, 1, x.size).reshape(x.shape)).sum())
            for x, y in zip(outputs, ends, strict=True)
        )

    with np.errstate(invalid="ignore"):
        up, down, far, back = (grown(answer.outputs) for answer in answers[:-1])
    one, two, jump = (up - down) / (2 * _STEP), (far - back) / (8 * _STEP), (up + down) / _STEP
    largest = max(abs(one), abs(two), 0.1)
    return one if abs(one - two) <= 0.1 * _OFF * largest and abs(jump) <= largest else None


def _memory(made: Made, caller: Caller, guess: Guess, findings: Findings) -> None:
    """Arrays that grow with T · S, at lengths beyond those of any block where the code has loops."""
    face, letters = caller.face, {letter for _, kind in guess.kinds for letter in kind}
    one_of_each = replace(guess.lengths, B=1, H=1, D=4, W=4, G=0)
    if face.description["backend"] not in ("numpy", "torch") or "T" not in letters:
        return
    if caller.handle is not None:
        # Widths are those of the instance, and so is the longest sequence that it takes.
        one_of_each = replace(guess.lengths, B=1)
        first, _ = made.of(caller) or (None, None)
        longest = first and first.sized(T=_BEYOND[1], S=_BEYOND[1])
        other = made.other(caller, {}, longest)
        if other is None:
            return
        caller = other
    pairs, took = [_LENGTHS], 0.0
    if re.search(r"\b(for|while|map|vmap|fori_loop|scan)\b", face.code + face.description["helpers"]):
        pairs.append(_BEYOND)
    for pair in pairs:
        weights: list[int] = []
        for n in pair:
            if took * (n / _LENGTHS[0]) ** 2 > _SLOWEST:
                return
            wide = replace(guess, lengths=replace(one_of_each, T=n, S=n))
            reply = caller.ask([Way(wide, extra={"weigh": True})])[0].reply
            if "bytes" not in reply or (weights and reply["seconds"] > _SLOW):
                # It fails there, or takes its time; the first call may have loaded what it needs.
                return
            weights.append(reply["bytes"])
            took = reply["seconds"] / (n / _LENGTHS[0]) ** 2
        ratio = pair[1] / pair[0]
        if weights[1] < pair[1] ** 2 or weights[1] < 0.6 * ratio**2 * weights[0]:
            return
    findings.add("memory_quadratic")
