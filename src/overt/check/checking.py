"""Checking one candidate: what it is decides which problems it gets."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from overt.check import trying
from overt.check.calls.call import AXES, Lengths, ladder
from overt.check.findings import Findings
from overt.check.parts.telling import Parts
from overt.check.process.describe import FORWARD
from overt.check.process.session import EndedError, Here, Session
from overt.check.report import CallError, CheckerError, Report, UnattendedError
from overt.check.text.interface import Interface
from overt.check.text.roles import LAYOUTS, MASKS, ROLES, role
from overt.check.text.shapes import shapes
from overt.check.text.syntax import used
from overt.check.varied import contracts, slips
from overt.errors import ArgumentError, OvertError
from overt.grid import whole

# Seconds at least, and at most for a call and for all; bytes at least; and the methods that are tried of what has none
# that is called so.
_SHORTEST, _CALL, _ALL, _LEAST, _METHODS = 0.1, 3600, 86_400, 64 << 20, 5
# Other methods that are looked into, and seconds in which a call of each is looked for.
_STEPS, _BRIEF = 2, 6.0


def examine(
    session: Session | Here,
    target: str | None,
    *,
    name: str | None = None,
    layout: str | None = None,
    mask: str | None = None,
    arguments: dict[str, str] | None = None,
    backend: str | None = None,
    example: Sequence[str] | None = None,
    sizes: dict[str, int] | None = None,
) -> Report:
    """Load a target in a session (None: what the session was made with) and check it."""
    findings: Findings | None = None
    options = {"--backend": backend, "--layout": layout, "--mask": mask}
    overrides = dict(arguments or {}) | {name: value for name, value in options.items() if value}
    try:
        reply, _ = session.ask({"op": "load", "target": target})
        if "error" in reply:
            if reply["error"]["type"] in ("SystemExit", "MemoryError"):
                findings = Findings(_NOTHING)
                findings.raised(reply["error"])
                return findings.report(name or str(target))
            raise ArgumentError(f"cannot load {target or name}: {reply['error']['type']}: {reply['error']['message']}")
        description = reply["description"]
        _agree(description, overrides, mask)
        shown = name or target or description["name"]
        first: Findings | CallError | None = None
        others = [library for library in description["libraries"] if library != description["backend"]]
        for library in [description["backend"], *(others if not backend else [])]:
            # What raises, or cannot be called, with the arrays of one library may have been written for another.
            findings = Findings(description)
            try:
                _check(
                    session,
                    {**description, "backend": library},
                    findings,
                    overrides,
                    example=example,
                    sizes=sizes,
                )
            except CallError as puzzled:
                first = first or puzzled
                continue
            if not {"raises", "unknown"} & set(findings.found) or (first is None and "raises" not in findings.found):
                break
            first = first or findings
        else:
            if isinstance(first, CallError):
                raise first
            findings = first
        assert findings is not None
    except EndedError as ended:
        findings = findings or Findings(_NOTHING)
        told = findings.description
        chosen = told.get("kind", "function") != "function" and not told["named"]
        if ended.kind in ("hang", "time") and not findings.judged and chosen and told["method"] not in FORWARD:
            # It may be one that does not attend, such as one that waits for a network.
            raise CallError(
                f"{told['name']} has no method forward, call or __call__, and of what another one does {ended}: "
                "check one of its functions"
            ) from None
        if ended.kind == "time":
            # Slow is not wrong: what was found until then stands.
            if not findings.judged:
                raise CallError(f"{name or target} was not understood in time: {ended}: raise --deadline") from None
            findings.entered("the rest", str(ended), tried=False)
            return findings.report(name or target or "it")
        says = {
            "hang": f"It hangs: {ended}.",
            "crash": f"It crashes: {ended}.",
            "exit": f"It ends the process: {ended}.",
        }
        findings.add({"hang": "hangs", "exit": "exits"}.get(ended.kind, "crashes"), message=says[ended.kind])
        shown = name or target or "it"
    except OvertError:
        raise
    except Exception as error:
        # Nothing is said of a candidate whose answers make no sense, such as one that wrote into the checker's pipe.
        raise CheckerError(
            f"{name or target} gave answers that cannot be understood ({type(error).__name__}: {error}): "
            "it writes where it should not, or the checker is wrong"
        ) from error
    if not findings.judged:
        # It is called right for what was tried alone.
        steps = dict.fromkeys(f"{e.step.rpartition(', ')[2]} ({e.why})" for e in findings.ledger if e.why)
        raise CallError(
            f"{findings.description['name']} runs and attends, and no step of it could be judged: {', '.join(steps)}"
        )
    return findings.report(shown)


def _agree(description: dict[str, Any], overrides: dict[str, str], mask: str | None) -> None:
    """Raise ArgumentError where something is said of an argument that there is not."""
    rows = [*description["parameters"], *description["constructor"]]
    names = [row["name"] for row in rows]
    # Inside a class there may be others that attend, with arguments of their own.
    text = description["source"] + description["helpers"] if description["kind"] != "function" else ""
    for name in overrides:
        if rows and name[:2] != "--" and name not in names and not re.search(rf"\b{re.escape(name)}\b", text):
            raise ArgumentError(f"{description['name']} has no argument {name}: its arguments are {', '.join(names)}")
    told = {overrides.get(name) or role(name) for name in names}
    if mask is not None and rows and not told & {"mask", "padding"} and "mask" not in text:
        raise ArgumentError(f"{description['name']} takes no mask, so there is nothing to say of it")


_NOTHING: dict[str, Any] = {"source": "", "line": 0, "file": None}


def _check(
    session: Session | Here,
    description: dict[str, Any],
    findings: Findings,
    overrides: dict[str, str],
    *,
    example: Sequence[str] | None,
    sizes: dict[str, int] | None,
) -> None:
    """Check a candidate by a call that somebody gave, or by calls found by trying, or as a part of attention."""
    face = Interface(description, description["parameters"], overrides)
    if description["kind"] != "function" and description["method"] is None:
        found = False
        # What asks an object that was told something says all of what tells it.
        for method in (description["asking"] or description["methods"])[:_METHODS]:
            reply, _ = session.ask({"op": "method", "name": method})
            if "error" in reply or not reply["description"]["parameters"]:
                continue
            told = {**reply["description"], "backend": description["backend"]}
            try:
                _check(session, told, findings, overrides, example=example, sizes=sizes)
            except CallError:
                continue
            found = True
        if not found:
            raise CallError(
                f"{face.name} has no method forward, call or __call__ in Python: check one of its functions"
            )
        return
    maker = Interface(description, description["constructor"], overrides) if description["kind"] == "class" else None
    if example is not None:
        reply = trying.example(session, face, example)
        if "error" in reply:
            findings.raised(reply["error"])
            return
        if reply["judged"].get("cores"):
            findings.conclude([reply["judged"]])
            contracts.packed(face, reply["judged"]["facts"], findings)
            return
    try:
        if not trying.begun(session, face, maker, findings, ladder(sizes), handed=True):
            trying.check(session, face, maker, findings, ladder(sizes))
    except CallError as error:
        # What does not attend may be a part of what does.
        parts = Parts(session, face, maker)
        if example is None and sizes is None and parts.check(findings):
            for argument in face.arguments:
                if argument.role is None and not used(face.whole, argument.name):
                    findings.untried(argument)
            return
        # What a call of the checker's own came to is no mistake where another one runs.
        ran = error.ran if isinstance(error, UnattendedError) else ()
        slipped = any(slips.attends(session, face, caller, guess, findings) for caller, guess in ran)
        if (
            not slipped
            and not trying.begun(session, face, maker, findings, ladder(sizes))
            and not (parts.mended(findings) or parts.nearest(findings))
        ):
            reply = (trying.overheard(session, face) if example is None else None) or {}
            if not reply.get("judged", {}).get("cores"):
                raise
            findings.convention["called with"] = "what its own file calls it with"
            findings.entered("other masks, modes, precision, what is kept", "this call alone was judged", tried=False)
            findings.conclude([reply["judged"]])
            contracts.packed(face, reply["judged"]["facts"], findings)
            return
    else:
        _steps(session, face, maker, findings, ladder(sizes))
    _enter(face, findings, session.passed)


def _steps(
    session: Session | Here, face: Interface, maker: Interface | None, findings: Findings, sizes: Sequence[Lengths]
) -> None:
    """What is wrong in other methods that attend, such as the step of a decoder, where nothing else is.

    And in those that call the usual one, where that alone shows nothing, as one step of many does not.
    """
    told, passed = face.description, set(session.passed)
    # What was called after another method may be given what that makes, and what it gave itself.
    callers = () if findings.judged else (*[told["method"]] * bool(told.get("hands")), *told.get("callers", ()))
    # Of one that somebody named, what is wrong in others is not asked.
    steps = () if told["named"] else told.get("steps", ())
    others = [*dict.fromkeys((*callers, *steps))][:_STEPS]
    for name in others:
        reply, _ = session.ask({"op": "method", "name": name})
        if "error" in reply or findings.wrong:
            continue
        own = {**reply["description"], "backend": told["backend"]}
        other = Findings(own)
        with suppress(CallError, CheckerError):
            trying.check(session, Interface(own, own["parameters"], face.overrides), maker, other, sizes, _BRIEF)
            if not other.judged:
                continue
            wrong = {one.id: one for one in other.found.values() if one.kind in ("mistake", "unknown")}
            says = "it attends too" if wrong else "it attends too, and nothing is wrong"
            findings.entered(f"method {name}", says, failed=next(iter(wrong), None))
            findings.found |= wrong
    if others:
        session.ask({"op": "method", "name": told["method"]})
    session.passed = passed


def _enter(face: Interface, findings: Findings, passed: set[str | int]) -> None:
    """What was not tried of a candidate that attends."""
    if not any(face.has(kind) for kind in ("mask", "padding", "lengths")):
        findings.entered("mask", "it takes none", tried=False)
    told = shapes(face.shaped, [argument.name for argument in face.arguments])
    for number, argument in enumerate(face.arguments):
        if not {argument.name, number} & passed:
            findings.untried(argument)
        elif (
            argument.role is None
            and argument.default is None
            and not {argument.name} & {*face.makers, *(n for n, *_ in told)}
        ):
            findings.guessed(argument)


def check(
    target: Any,
    *,
    layout: str | None = None,
    mask: str | None = None,
    arguments: dict[str, str] | None = None,
    timeout: float = 20.0,
    deadline: float = 300.0,
    memory: int = 2 << 30,
    isolate: bool = True,
    example: Sequence[str] | None = None,
    sizes: dict[str, int] | None = None,
) -> Report:
    """Run ``overt.check``, which tells the arguments."""
    _validate(layout, mask, arguments, example, sizes, memory)
    limits: dict[str, Any] = {
        "timeout": _seconds("timeout", timeout, _CALL),
        "deadline": _seconds("deadline", deadline, _ALL),
        "memory": memory,
    }
    options: dict[str, Any] = {"layout": layout, "mask": mask, "arguments": arguments}
    options |= {"example": example, "sizes": sizes}
    if isinstance(target, str):
        if ":" not in target:
            raise ArgumentError(f"{target!r} names no candidate: give FILE.py:name or module:name")
        with Session(**limits) as session:
            return examine(session, target, **options)
    if not callable(target):
        raise ArgumentError(f"check takes a function, a class, an instance or a string, not a {type(target).__name__}")
    name = getattr(target, "__name__", type(target).__name__)
    where = Session(target, **limits) if isolate and _forks(target) else Here(target)
    with where as session:
        return examine(session, None, name=name, **options)


def _validate(
    layout: str | None,
    mask: str | None,
    arguments: dict[str, str] | None,
    example: Sequence[str] | None,
    sizes: dict[str, int] | None,
    memory: int,
) -> None:
    for what, value, known in (("layout", layout, LAYOUTS), ("mask", mask, MASKS)):
        if value is not None and value not in known:
            raise ArgumentError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    if example is not None and (
        isinstance(example, str) or len(example) != 2 or not all(isinstance(text, str) for text in example)
    ):
        raise ArgumentError(
            "example takes two texts, what is called and its arguments, such as "
            f'("Attention(64, 4)", "(torch.randn(2, 5, 64),)"), not {example!r:.80}'
        )
    if sizes is not None and (not isinstance(sizes, Mapping) or not sizes or set(sizes) - set(AXES)):
        raise ArgumentError(f'sizes takes whole numbers by {", ".join(AXES)}, such as {{"T": 16}}, not {sizes!r:.80}')
    for axis, size in (sizes or {}).items():
        if whole(f"the size {axis}", size) < 1:
            raise ArgumentError(f"the size {axis} must be at least 1, not {size}")
    if not isinstance(arguments, Mapping | None):
        raise ArgumentError(f'arguments takes roles by name, such as {{"a": "q"}}, not {arguments!r:.80}')
    for name, meaning in (arguments or {}).items():
        if meaning not in ROLES:
            raise ArgumentError(f"{meaning!r} is no role for {name}: give one of {', '.join(ROLES)}")
    if whole("memory", memory) < _LEAST:
        # Right code ends with less, too.
        raise ArgumentError(f"memory must be at least 64 MiB, {_LEAST} bytes, not {memory}")


def _seconds(name: str, value: Any, most: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not _SHORTEST <= value <= most:
        raise ArgumentError(f"{name} must be seconds, at least {_SHORTEST} and at most {most}, not {value!r:.80}")
    return float(value)


def _forks(target: Any) -> bool:
    """Whether a fork of this process can run it: libraries with threads of their own cannot."""
    module = inspect.getmodule(target if inspect.isroutine(target) or inspect.isclass(target) else type(target))
    used = (
        {str(getattr(v, "__name__", "")).partition(".")[0] for v in vars(module).values() if inspect.ismodule(v)}
        if module
        else set()
    )
    return hasattr(os, "fork") and sys.platform != "darwin" and not used & {"jax", "jaxlib", "tensorflow"}
