"""Checking one candidate: what it is decides which problems it gets."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from overt.check.attention import Attention, Instance
from overt.check.calling import FailedError
from overt.check.calls import AXES, ladder
from overt.check.diagnosis import Diagnosis
from overt.check.findings import Findings
from overt.check.forms import PuzzledError
from overt.check.instances import HEADS, build, first_call, instance
from overt.check.interface import Interface
from overt.check.report import CallError, CheckerError, Report, UnattendedError
from overt.check.roles import LAYOUTS, MASKS, ROLES, role
from overt.check.session import EndedError, Here, Session
from overt.check.steps import relevant
from overt.errors import ArgumentError, OvertError
from overt.grid import whole

# Seconds: a day.
_LONGEST = 86_400


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
    overrides = dict(arguments or {}) | ({"--backend": backend} if backend else {})
    try:
        reply, _ = session.ask({"op": "load", "target": target})
        if "error" in reply:
            if reply["error"]["type"] in ("SystemExit", "MemoryError"):
                findings = Findings(_NOTHING)
                findings.raised(None, reply["error"])
                return findings.report(name or str(target))
            raise ArgumentError(f"cannot load {target or name}: {reply['error']['type']}: {reply['error']['message']}")
        description = reply["description"]
        _agree(description, overrides, mask)
        shown = name or target or description["name"]
        first: Findings | PuzzledError | CallError | None = None
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
                    layout=layout,
                    mask=mask,
                    example=example,
                    sizes=sizes,
                )
            except (PuzzledError, CallError) as puzzled:
                first = first or puzzled
                continue
            if not {"raises", "unknown"} & set(findings.found) or (first is None and "raises" not in findings.found):
                break
            first = first or findings
        else:
            if isinstance(first, PuzzledError | CallError):
                raise first
            findings = first
        assert findings is not None
    except EndedError as ended:
        findings = findings or Findings(_NOTHING)
        if ended.kind == "time":
            # Slow is not wrong: what was found until then stands.
            if not findings.found and not findings.convention:
                raise CallError(f"{name or target} was not understood in time: {ended}: raise --deadline") from None
            findings.entered("the rest", str(ended), tried=False)
            return findings.report(name or target or "it")
        says = {
            "hang": f"It hangs: {ended}.",
            "crash": f"It crashes: {ended}.",
            "exit": f"It ends the process: {ended}.",
        }
        findings.add(
            {"hang": "hangs", "exit": "exits"}.get(ended.kind, "crashes"), kind="unknown", message=says[ended.kind]
        )
        shown = name or target or "it"
    except PuzzledError as puzzled:
        raise CallError(str(puzzled)) from None
    except OvertError:
        raise
    except Exception as error:
        # Nothing is said of a candidate whose answers make no sense, such as one that wrote into the checker's pipe.
        raise CheckerError(
            f"{name or target} gave answers that cannot be understood ({type(error).__name__}: {error}): "
            "it writes where it should not, or the checker is wrong"
        ) from error
    return findings.report(shown)


def _agree(description: dict[str, Any], overrides: dict[str, str], mask: str | None) -> None:
    """Raise ArgumentError where something is said of an argument that there is not."""
    rows = [*description["parameters"], *description["constructor"]]
    names = [row["name"] for row in rows]
    # Inside a class there may be others that attend, with arguments of their own.
    text = description["source"] + description["helpers"] if description["kind"] != "function" else ""
    for name in overrides:
        if rows and name not in (*names, "--backend") and not re.search(rf"\b{re.escape(name)}\b", text):
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
    layout: str | None,
    mask: str | None,
    example: Sequence[str] | None,
    sizes: dict[str, int] | None,
) -> None:
    from overt.check import trying
    from overt.check.parts import Parts

    interface = Interface(description, description["parameters"], overrides)
    if description["kind"] != "function" and description["method"] is None:
        raise PuzzledError(f"{interface.name} has no method forward, call or __call__: check one of its functions")
    maker = Interface(description, description["constructor"], overrides) if description["kind"] == "class" else None
    made: Instance | None = None
    seen: dict[str, Any] = {}
    if example is not None:
        told, reply = trying.example(session, interface, example)
        if "error" in reply:
            findings.raised(None, reply["error"])
            return
        seen = reply["judged"]
        if told["method"]:
            made = instance(told["handle"], told["parameters"], told["arrays"], told["numbers"])
    parts = Parts(session, interface, maker)
    if example is None and sizes is None and parts.check(findings):
        return
    try:
        if sizes is not None:
            # These, and no others.
            raise PuzzledError(f"{interface.name} was called in no other size than that given")
        _understand(session, interface, maker, findings, overrides, made, layout=layout, mask=mask)
        if findings.unexplained and made is None:
            # Numbers that nothing explains: a call found by trying may show why.
            other = Findings(description)
            with suppress(CallError):
                trying.check(session, interface, maker, other, "", ladder(sizes))
                findings.found, findings.ledger = other.found, other.ledger
        if not seen.get("cores") or "unknown" not in findings.found:
            return
    except (EndedError, OvertError):
        raise
    except (PuzzledError, ArithmeticError) as error:
        if not seen.get("cores"):
            findings.clear()
            try:
                try:
                    trying.check(session, interface, maker, findings, str(error), ladder(sizes))
                except CallError:
                    if not trying.begun(session, interface, maker, findings, ladder(sizes)):
                        raise
            except CallError as none:
                if parts.nearest(findings):
                    return
                if isinstance(none, UnattendedError):
                    # What a call of the checker's own raised is no mistake where another one runs.
                    raise
                if isinstance(error, FailedError):
                    findings.raised(None, error.error)
                elif isinstance(error, PuzzledError):
                    raise
                else:
                    raise error from None
            return
    # What was given settles it.
    findings.clear()
    trying.conclude(findings, [seen])


def _understand(
    session: Session | Here,
    interface: Interface,
    maker: Interface | None,
    findings: Findings,
    overrides: dict[str, str],
    made: Instance | None,
    *,
    layout: str | None,
    mask: str | None,
) -> None:
    """Check what names, documentation and a few layouts explain."""
    from overt.check import around, decoding

    description = interface.description
    if interface.intents["luong"]:
        raise PuzzledError(f"{interface.name} makes more of its context than attention does")
    if maker is not None and made is None:
        built = build(session, maker)
        if isinstance(built, str):
            raise PuzzledError(
                f"cannot tell what the argument {built} of {interface.name} is: "
                f"say it with --argument, such as --argument {built}=heads"
            )
        if isinstance(built, dict):
            if not built["always"]:
                raise PuzzledError(
                    f"{interface.name} could not be made: in several sizes it raised {built['type']}: "
                    f"{built['message'][:120]}"
                )
            findings.raised(None, built)
            return
        made = built
    elif description["kind"] == "instance" and made is None:
        first, given = first_call(description)
        reply, arrays = session.ask({"op": "build", "seed": 1, "first": first}, given)
        if "error" in reply:
            findings.raised(None, reply["error"])
            return
        made = instance(reply["handle"], reply["parameters"], arrays, reply["numbers"])
    elif description["globals"]:
        made = _global_weights(session, interface)
    attention = Attention(session, interface, made)

    if maker is not None and description["method"] in ("step", "decode", "decode_step", "append", "update"):
        raise PuzzledError(f"{interface.name} has only the method {description['method']}")
    if maker is not None and decoding.remembers(attention):
        raise PuzzledError(f"{interface.name} keeps something between its calls")
    diagnosis = Diagnosis(attention, findings, layout=layout, mask=mask)
    diagnosis.rebuild = maker
    around.check(diagnosis, overrides)
    _enter(diagnosis, session.passed)


def _enter(diagnosis: Diagnosis, passed: set[str | int]) -> None:
    """What was tried of a candidate that attends, and what was not."""
    findings, face = diagnosis.findings, diagnosis.interface
    if not diagnosis.understood:
        findings.entered("masks, options, half precision, gradients", "what it computes was not found out", tried=False)
        return
    seen = {entry.step for entry in findings.ledger if entry.outcome != "not tried"}
    for step in sorted(relevant(diagnosis.base_trials[0].case) - {"mask"} - seen):
        findings.entered(step)
    hides = [kind for kind in ("mask", "padding", "lengths") if face.has(kind)]
    for kind in hides:
        name = face.by_role[kind].name
        why = findings.convention.get(name, findings.convention.get(kind, ""))
        findings.entered("mask", f"{name}: {why}" if why else name, tried=kind in diagnosis.masked)
    if not hides:
        findings.entered("mask", "it takes none", tried=False)
    if not diagnosis.wide:
        findings.entered("more keys than queries", "it takes as many keys as queries", tried=False)
    for number, argument in enumerate(face.arguments):
        if not {argument.name, number} & passed:
            findings.entered(f"argument {argument.name}", "it was never passed", tried=False)


def _global_weights(session: Session | Here, interface: Interface) -> Instance | None:
    """Weights that a function reads from its module."""
    _, arrays = session.ask({"op": "globals", "names": interface.description["globals"]})
    rows = [
        {"path": name, "owner": "", "shape": a.shape, "eps": 0.0, "registered": True, "trainable": False}
        for name, a in arrays.items()
        if a.dtype.kind == "f" and (role(name) or "")[:1] in ("W", "b")
    ]
    made = instance(None, rows, arrays, {}, HEADS if interface.has("heads") else 1)
    return made if made.projections and {"q", "k", "v"} & set(made.projections.weight) else None


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
        "timeout": _seconds("timeout", timeout),
        "deadline": _seconds("deadline", deadline),
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
    if whole("memory", memory) < 1:
        raise ArgumentError(f"memory must be at least 1 byte, not {memory}")


def _seconds(name: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= _LONGEST:
        raise ArgumentError(f"{name} must be seconds, more than 0 and at most {_LONGEST}, not {value!r:.80}")
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
