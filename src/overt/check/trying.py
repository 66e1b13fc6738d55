"""Calls found by trying, recorded and judged: for what names and documentation do not explain."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from overt.check import calls
from overt.check.calls import Guess, Lengths, Search, Tried
from overt.check.findings import Findings
from overt.check.interface import Interface
from overt.check.recorded import enter, tell
from overt.check.report import CallError
from overt.check.session import Here, Session

# Instances, calls of one request that are looked into and of all, and constructors that are tried.
_MADE, _CALLS, _RAN, _BUILT = 16, 4, 12, 360
# Seconds after which no other call is looked for.
_SECONDS = 5.0
# Steps that may be left untried, as a mask is that nobody gives, where no other call is looked for.
_ENOUGH = 2
_MASKS = (*calls.MASKS, "lengths", "True")


class _Found(NamedTuple):
    """A call that attends: how many steps of it could not be judged, and what it came to."""

    lost: int
    handle: int | None
    guess: Guess
    judged: dict[str, Any]

    @property
    def faults(self) -> int:
        """How many mistakes were seen."""
        return len(self.judged.get("faults", ()))

    def rank(self) -> tuple[bool, int, int]:
        """The least is the best."""
        return self.guess.mixed, self.lost, self.faults


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
    found: list[_Found] = []
    refused: list[Tried] = []
    searches: list[tuple[int | None, Search, Iterator[list[Tried]]]] = []

    def look(handle: int | None, some: list[Tried]) -> bool:
        """Whether what runs is enough."""
        for tried in some[:_CALLS]:
            ran.append(tried)
            judged = _judged(session, face, handle, [tried.guess])[0]
            # Widths and lengths of 1 hide what can be wrong.
            lost = sum(entry["outcome"] == "not tried" for entry in judged.get("ledger", ()))
            if any(entry["outcome"] != "not tried" for entry in judged.get("ledger", ())):
                found.append(_Found(lost, handle, tried.guess, judged))
            if found and (lost < _ENOUGH or len(ran) >= _RAN):
                return True
        return len(ran) >= _RAN

    end = time.monotonic() + _SECONDS
    enough = False
    for handle, lengths in _made(session, face, maker, refused, ladder):
        search = Search(session, face, _asking(session, face, handle), lengths)
        searches.append((handle, search, search.run()))
        enough = look(handle, next(searches[-1][2], []))
        if enough or time.monotonic() > end:
            break
    # Of several instances, that whose calls came furthest is called on.
    going = list(searches)
    while (
        not enough
        and going
        and time.monotonic() < end
        and sum(len(search.tried) for _, search, _ in searches) < calls.MOST
    ):
        best = max(going, key=lambda one: one[1].reached)
        some = next(best[2], None)
        if some is None or (len(searches) > 1 and len(best[1].tried) >= calls.MOST // 2):
            going.remove(best)
        enough = look(best[0], some or [])
    if found:
        one = _kinder(session, face, min(found, key=_Found.rank))
        if one.faults and one.guess.mixed:
            raise CallError(
                f"{face.name} runs, with {one.guess}, but what its arguments are is not sure enough to judge it by: "
                "give a call with --example"
            )
        findings.convention["called with"] = str(one.guess)
        conclude(findings, [one.judged, *_optional(session, face, one)])
        return
    if ran:
        raise CallError(f"{face.name} runs, with {ran[0].guess}, and no attention was found inside")
    failed = [tried for _, search, _ in searches for tried in search.tried] or refused
    far = sorted(failed, key=lambda t: t.reached, reverse=True)[:2]
    shown = "; ".join(map(str, far))
    told = f".  {len(failed)} calls were tried, and those that came furthest are {shown}" if far else ""
    raise CallError(f"{why}{told}.  Give a call that works with --example")


def _kinder(session: Session | Here, face: Interface, found: _Found) -> _Found:
    """A call in which a number is another factor: what another one mends is no mistake of the candidate."""
    others = [
        found.guess.given(path, other)
        for path, kind in found.guess.kinds
        if kind in calls.VALUES and path[0] not in face.overrides
        for other in ("scale", "1.0", "0.0")
        if other != kind
    ]
    if not found.faults or not others:
        return found
    best = found
    for guess, judged in zip(others, _judged(session, face, found.handle, others), strict=True):
        if judged.get("cores") and judged["shapes"] == found.judged["shapes"] and len(judged["faults"]) < best.faults:
            best = _Found(found.lost, found.handle, guess, judged)
    return best


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
    search = Search(session, maker, build, ladder, calls.NUMBERS, ("float64",), _BUILT)
    known: list[Any] = []
    for some in search.run():
        for tried in some:
            reply = made[tried.guess]
            like = reply["shapes"], reply["numbers"]
            if like not in known and len(known) < _MADE:
                known.append(like)
                yield reply["handle"], _lengths(reply, tried.guess.lengths, ladder)
        if len(known) >= _MADE or (known and len(search.tried) >= calls.BATCH * 2):
            break
    failed += [tried for tried in search.tried if tried.error is not None]


def _lengths(reply: dict[str, Any], built: Lengths | None, ladder: Sequence[Lengths]) -> Sequence[Lengths]:
    """Lengths that fit an instance: widths are sides of its matrices, and any number that it holds may be a length."""
    if len(ladder) == 1:
        # They were given.
        return ladder
    sides = [n for shape in reply["shapes"] if len(shape) > 1 for n in shape if n > 1]
    widths = sorted(dict.fromkeys(sides), key=lambda n: -sides.count(n)) or [built.W if built else 12]
    if built is not None:
        widths.sort(key=lambda width: width != built.W)
    held = [int(n) for n in reply["numbers"].values() if 1 < n < 200 and n == int(n)]
    sizes = dict.fromkeys([5, *held, *(n * n for n in held if n < 20), *(n for n in sides if n < 200), 8, 16, 49, 64])
    found = []
    for width in widths[:3]:
        heads = next((n for n in held if width % n == 0 and n < width), 1)
        heads = built.H if built is not None and width % built.H == 0 else heads
        # What is as wide as nothing else here may be two widths one after the other.
        others = dict.fromkeys([*(n for n in widths if n != width), 2 * width])
        found += [Lengths(2, heads, 5, 5, max(1, width // heads), width, U=other) for other in others]
        found += [Lengths(2, heads, n, n, max(1, width // heads), width) for n in sizes]
    found.sort(key=lambda n: (widths[0] != n.W, n.T != 5))
    return found[:32]


def _asking(session: Session | Here, face: Interface, handle: int | None) -> Any:
    return lambda guesses: _called(session, face, handle, guesses)


def _called(
    session: Session | Here, face: Interface, handle: int | None, guesses: Sequence[Guess], **extra: Any
) -> list[dict[str, Any]]:
    """The replies to calls, a few in one request."""
    replies: list[dict[str, Any]] = []
    for start in range(0, len(guesses), calls.BATCH):
        specs: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for number, guess in enumerate(guesses[start : start + calls.BATCH]):
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
    replies = _called(session, face, handle, guesses, record=intents(face))
    return [r.get("judged", {}) | {"shapes": [one["shape"] for one in r.get("outputs", ())]} for r in replies]


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


def _optional(session: Session | Here, face: Interface, found: _Found) -> list[dict[str, Any]]:
    """What recordings come to with each optional argument that takes a mask, a flag or lengths."""
    told: list[dict[str, Any]] = []
    guess, said = found.guess, face.declared_mask()
    asked = {said == "additive"} if said or face.boolean_mask else {True, False}
    for argument in face.arguments:
        if argument.name in guess.names:
            continue
        # Named, so that what stands before it may be left out.
        more = [guess.given((argument.name,), kind) for kind in _MASKS if (kind[:5] == "added") in asked]
        seen = _judged(session, face, found.handle, more)
        # What is broadcast to something else is no mask.
        seen = [one for one in seen if one.get("cores") and one["shapes"] == found.judged["shapes"]]
        # What another kind of mask mends is no mistake of the candidate.
        told += sorted(seen, key=lambda one: len(one["faults"]))[:2]
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
