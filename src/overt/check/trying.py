"""Calls found by trying, recorded and judged: for what names and documentation do not explain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from overt.check import calls
from overt.check.calls import Guess, Lengths, Search, Tried
from overt.check.findings import Findings
from overt.check.interface import Interface
from overt.check.recorded import enter, tell
from overt.check.report import CallError
from overt.check.session import Here, Session

# Constructors, calls of what each makes, and calls in one request.
_MADE, _CALLS, _BATCH = 4, 4, 24
# Steps that may be left untried, as a mask is that nobody gives, where no other call is looked for.
_ENOUGH = 2
_MASKS = ("mask (T, S)", "mask (B, 1, T, S)", "mask (B, S)", "mask (B, 1, 1, S)", "added (T, S)", "lengths", "True")


def check(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    findings: Findings,
    why: str,
    ladder: Sequence[Lengths] = calls.LADDER,
) -> None:
    """Find a call that works and that attends, and judge its steps.  Raises CallError where there is none."""
    ran: list[Tried] = []
    failed: list[Tried] = []
    best: tuple[int, int | None, Guess, dict[str, Any]] | None = None
    for handle, lengths in _made(session, face, maker, failed, ladder):
        search = Search(session, face, _asking(session, face, handle), lengths)
        for tried in islice(search.run(), _CALLS):
            ran.append(tried)
            judged = _judged(session, face, handle, [tried.guess])[0]
            # Widths and lengths of 1 hide what can be wrong.
            lost = sum(entry["outcome"] == "not tried" for entry in judged.get("ledger", ()))
            followed = any(entry["outcome"] != "not tried" for entry in judged.get("ledger", ()))
            if followed and (best is None or lost < best[0]):
                best = lost, handle, tried.guess, judged
        failed += [tried for tried in search.tried if tried.error is not None]
        if best is not None and best[0] < _ENOUGH:
            break
    if best is not None:
        _, handle, guess, judged = best
        findings.convention["called with"] = str(guess)
        conclude(findings, [judged, *_optional(session, face, handle, guess)])
        return
    if ran:
        raise CallError(f"{face.name} runs, with {ran[0].guess}, and no attention was found inside")
    far = sorted(failed, key=lambda t: t.reached, reverse=True)[:2]
    shown = "; ".join(map(str, far))
    told = f".  {len(failed)} calls were tried, and those that came furthest are {shown}" if far else ""
    raise CallError(f"{why}{told}.  Give a call that works with --example")


def conclude(findings: Findings, told: list[dict[str, Any]]) -> None:
    """Findings and ledger of recordings: what is known, or else what is only located."""
    faults: dict[str, dict[str, Any]] = {}
    for one in told:
        for fault in one["faults"]:
            faults.setdefault(fault["mistake"], fault)
    known = {name: fault for name, fault in faults.items() if name != "unknown"}
    for name, fault in (known or faults).items():
        tell(findings, name, fault)
    enter(findings, told)


def _made(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    failed: list[Tried],
    ladder: Sequence[Lengths],
) -> Iterator[tuple[int | None, Sequence[Lengths]]]:
    """Handles of instances, or None for a function; each with the lengths that it may be called with."""
    kind = face.description["kind"]
    if kind == "function":
        yield None, ladder
        return
    made: dict[Guess, dict[str, Any]] = {}

    def build(guesses: Sequence[Guess]) -> list[dict[str, Any]]:
        assert maker is not None
        replies = []
        for guess in guesses:
            args, kwargs, arrays = calls.specs(guess, maker)
            names = [a.name for a in maker.arguments]
            kwargs |= dict(zip(names, args, strict=False))
            reply, out = session.ask({"op": "build", "kwargs": kwargs, "seed": 1}, arrays)
            made[guess] = reply | {"shapes": [x.shape for x in out.values()]}
            replies.append(reply)
        return replies

    if maker is None:
        reply, out = session.ask({"op": "build", "seed": 1})
        if "error" not in reply:
            reply["shapes"] = [x.shape for x in out.values()]
            yield reply["handle"], _lengths(reply, None, ladder)
        return
    search = Search(session, maker, build, ladder, (*calls.VALUES, "config"), ("float64",))
    known: list[Any] = []
    for tried in search.run():
        shapes = made[tried.guess]["shapes"]
        if shapes in known:
            continue
        known.append(shapes)
        if len(known) > _MADE:
            break
        yield made[tried.guess]["handle"], _lengths(made[tried.guess], tried.guess.lengths, ladder)
    failed += [tried for tried in search.tried if tried.error is not None]


def _lengths(reply: dict[str, Any], built: Lengths | None, ladder: Sequence[Lengths]) -> Sequence[Lengths]:
    """Lengths that fit an instance: widths are sides of its matrices, and any number that it holds may be a length."""
    if len(ladder) == 1:
        # They were given.
        return ladder
    matrices = [shape for shape in reply["shapes"] if len(shape) > 1]
    widths = list(dict.fromkeys(shape[1] for shape in matrices)) or [built.W if built else 12]
    if built is not None:
        widths.sort(key=lambda width: width != built.W)
    held = [int(n) for n in reply["numbers"].values() if 1 < n < 200 and n == int(n)]
    heads = next((n for n in held if widths[0] % n == 0 and n < widths[0]), 1)
    heads = built.H if built is not None and widths[0] % built.H == 0 else heads
    sizes = dict.fromkeys([5, 8, 16, 49, 64, *held, *(n * n for n in held if n < 20)])
    found = [Lengths(2, heads, n, n, max(1, width // heads), width) for width in widths[:2] for n in sizes]
    return found[:24]


def _asking(session: Session | Here, face: Interface, handle: int | None) -> Any:
    return lambda guesses: _called(session, face, handle, guesses)


def _called(
    session: Session | Here, face: Interface, handle: int | None, guesses: Sequence[Guess], **extra: Any
) -> list[dict[str, Any]]:
    """The replies to calls, a few in one request."""
    replies: list[dict[str, Any]] = []
    for start in range(0, len(guesses), _BATCH):
        specs: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, guess in enumerate(guesses[start : start + _BATCH]):
            args, kwargs, mine = calls.specs(guess, face, f"{number}_")
            one = {
                "args": args,
                "kwargs": kwargs,
                "backend": face.description["backend"],
                "still": True,
                "train": False,
            }
            one |= {"dtype": guess.dtype, **extra}
            if handle is not None:
                one["method"] = face.description["method"]
            specs.append(one)
            arrays |= mine
        reply, _ = session.ask({"op": "call", "handle": handle, "calls": specs}, arrays)
        replies += reply["replies"] if "replies" in reply else [reply] * len(specs)
    return replies


def _judged(
    session: Session | Here, face: Interface, handle: int | None, guesses: Sequence[Guess]
) -> list[dict[str, Any]]:
    asked = intents(face)
    return [reply.get("judged", {}) for reply in _called(session, face, handle, guesses, record=asked)]


def intents(face: Interface) -> dict[str, Any]:
    """What the candidate says of itself, by which its recordings are judged."""
    told = (face.name + face.prose).lower()
    # The second of three axes, wherever a shape is documented.
    lengths = set(re.findall(r"[(\[]\s*\w+\s*,\s*(\w+)\s*,\s*\w+\s*[)\]]", face.described))
    return {
        "causal": True if face.declared_causal else None,
        "luong": "luong" in told,
        "pairs": len(lengths) > 1 and "1" not in lengths,
    }


def _optional(session: Session | Here, face: Interface, handle: int | None, guess: Guess) -> list[dict[str, Any]]:
    """What recordings come to with each optional argument that takes a mask, a flag or lengths."""
    told = []
    for argument in face.arguments:
        if argument.name in dict(guess.kinds):
            continue
        # Named, so that what stands before it may be left out.
        more = [replace(guess, kinds=(*guess.kinds, (argument.name, kind))) for kind in _MASKS]
        seen = [one for one in _judged(session, face, handle, more) if one.get("cores")]
        told += seen[:2]
    return told


def example(session: Session | Here, face: Interface, given: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make what somebody gave, and call and record it as they said: what was made, and what the call came to."""
    made, arrays = session.ask({"op": "example", "make": given[0], "call": given[1]})
    if "error" in made:
        raise CallError(f"the example cannot be made: {made['error']['type']}: {made['error']['message']}")
    asked = intents(face)
    one = {"args": [], "kwargs": {}, "example": True, "backend": face.description["backend"], "still": True}
    one |= {"dtype": "float32", "record": asked, "method": face.description["method"] if made["method"] else None}
    reply, _ = session.ask({"op": "call", "handle": made["given"], "calls": [one]})
    return made | {"arrays": arrays}, reply["replies"][0] if "replies" in reply else reply
