"""Calls found by trying, recorded and judged: for what names and documentation do not explain."""

from __future__ import annotations

import ast
import linecache
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from overt.check.calls import call as calls
from overt.check.calls.call import Guess, Lengths, Tried
from overt.check.calls.search import Search
from overt.check.findings import Findings
from overt.check.looking import CALLS, SECONDS, TURN, Looking
from overt.check.making import instances
from overt.check.process.overhearing import HeardError
from overt.check.process.session import EndedError, Here, Session
from overt.check.report import CallError, CheckerError, UnattendedError
from overt.check.text.interface import Interface
from overt.check.text.roles import LAYOUTS
from overt.check.text.syntax import is_own, parsed, tested
from overt.check.varied import beside, continuing, contracts, effects, outside, reordering, repeating, samples, slips
from overt.check.varied.asking import Caller, probe
from overt.check.varied.choices import chosen
from overt.check.varied.varying import SORTS, Found, kinder, optional

_NAMELESS = ("NameError", "UnboundLocalError", "MemoryError", "SystemExit", "KeyboardInterrupt")
# What something says that was called with other arguments than it takes.
_AMISS = re.compile(
    r"[A-Za-z][\w.]*\(\) (missing \d+ required .*argument|got an unexpected keyword|takes .* but \d+ w(as|ere) given)"
)
# What uses a candidate that is called for it, and seconds for each.
_USERS, _LISTENING = 3, 5.0
# So many positions that some are not chosen.
_MANY = 24
# What a recording says whose sequences are too short to tell something.
_SHORT = {"one key", "positions or heads"}


def check(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    findings: Findings,
    ladder: Sequence[Lengths] = calls.LADDER,
    seconds: float = SECONDS,
) -> None:
    """Find a call that works and that attends, and judge its steps.  Raises CallError where there is none.

    No other call is looked for after so many seconds.
    """
    looking = Looking(session, face, beside.Made(session, maker), ladder, seconds)
    looking.run()
    if looking.found or looking.unsure:
        _judge(looking, findings)
    elif not (_again(looking, findings) or _equal(looking, findings) or _beyond(looking, findings)):
        _refuse(looking, findings)


def _judge(looking: Looking, findings: Findings) -> None:
    """What the best call that attends comes to, and what other calls like it tell."""
    session, face, made = looking.session, looking.face, looking.made
    one = min(looking.found or looking.unsure[:1], key=Found.rank)
    one = kinder(looking.caller(one.handle), one, made)
    caller, guess, cores = looking.caller(one.handle), one.guess, one.judged["cores"]
    unclear = one.doubtful if one.faults else not one.weighs
    if unclear and slips.attends(session, face, caller, guess, findings):
        return
    if one.faults and unclear:
        raise CallError(
            f"{face.name} runs, with {guess.shown}, but what its arguments are is not sure enough to judge it "
            "by: give a call with --example"
        )
    findings.convention["called with"] = str(guess)
    layout = _layout(guess)
    if layout is not None:
        findings.convention["layout"] = layout
    seen, masks, ran_with = optional(caller, one, findings)
    other = beside.resized(made, caller, guess, one.judged)
    more = [*seen, *beside.wider(caller, guess, one.judged), *beside.overrun(made, caller, guess, one.judged)]
    again = repeating.again(caller, guess) if "one key" in one.judged["facts"] else {}
    if again.get("cores"):
        more.append(again)
    elif _SHORT & one.judged["facts"].keys():
        # Where it is given more, it makes more positions of that.
        more += [told for told in other if not _SHORT & told["facts"].keys()]
    if "chooses all" in one.judged["facts"]:
        # Of more, some are left.
        more += [told for told in caller.recorded(guess.sized(T=_MANY, S=_MANY)) if told.get("cores")]
    if "one pair" in one.judged["facts"]:
        more += beside.resized(made, caller, guess, one.judged, beside.broader)
    judged = chosen(caller, guess, made, [one.judged, *more])
    findings.conclude([beside.settled(told, other, judged) for told in judged])
    if not guess.told:
        # What is documented runs as it is.
        beside.turned(*looking.tried(one.handle), guess, findings)
    beside.grouped(made, caller, guess, findings)
    facts = [told["facts"] for told in (one.judged, *other)]
    beside.scaled(made, caller, guess, facts, findings)
    beside.filled(caller, guess, ran_with, facts, findings)
    raw = made.training(caller)
    probe(caller, guess, masks, one.judged["facts"], findings, ran_with, raw or caller)
    samples.windows(caller, masks, findings)
    contracts.check(caller, guess, one.judged["facts"], findings)
    contracts.options(caller, guess, made, one.judged["facts"], findings)
    if (cores, facts[0].get("queries")) != (1, 1):
        # Where each position asks by itself, these are samples.
        continuing.check(caller, guess, made, findings)
    if "one key" in one.judged["facts"]:
        repeating.stepped(caller, guess, findings)
    reordering.given(caller, guess, findings)
    effects.check(made, caller, guess, findings)


def _again(looking: Looking, findings: Findings) -> bool:
    """Whether what runs attends where it is called over and over."""
    return any(repeating.repeated(caller, guess, findings) for caller, guess in looking.callers)


def _equal(looking: Looking, findings: Findings) -> bool:
    """Whether it attends where all axes are equal: what runs with others and does not attend does not."""
    for handle, search, _ in looking.searches if not looking.ran else ():
        if beside.turned(looking.caller(handle), search.tried, None, findings):
            findings.convention["called with"] = "arrays all of whose axes are equal"
            return True
    return False


def _beyond(looking: Looking, findings: Findings) -> bool:
    """Whether it attends in what no recorder follows, seen from outside."""
    for caller, guess in looking.callers:
        outer = outside.read(caller, guess)
        if outer.get("cores"):
            findings.convention["called with"] = str(guess)
            again = outside.read(caller, beside.elsewhere(guess)) if caller.handle is None else {}
            other = [again] if again.get("cores") else []
            findings.conclude([beside.settled(outer, other, ())])
            facts = [one["facts"] for one in (outer, *other)]
            beside.scaled(looking.made, caller, guess, facts, findings, outside.read)
            contracts.rests(caller, guess, looking.made, findings)
            return True
    return False


def _refuse(looking: Looking, findings: Findings) -> None:
    """Say why there is nothing to judge; find what its own fault is."""
    name, ran = looking.face.name, looking.ran
    if looking.broken:
        raise CheckerError(
            f"{name} runs, with {ran[0].guess.shown}, and what it computes could not be judged "
            f"({looking.broken[0].strip().splitlines()[-1]}): the checker is wrong here, give it another call with "
            "--example"
        )
    if ran:
        says = f"{name} runs, with {ran[0].guess.shown}, and no attention was found inside"
        raise UnattendedError(says, *looking.callers[:1])
    failed = looking.failed
    if _raising(looking.face, failed, findings):
        return
    far = sorted(failed, key=lambda t: t.reached, reverse=True)[:2]
    shown = "; ".join(map(str, far))
    told = (
        f"{len(failed)} calls were tried, and those that came furthest are {shown}" if far else "there is none to try"
    )
    raise CallError(f"no call of {name} works: {told}.  Give a call that works with --example")


def _layout(guess: Guess) -> str | None:
    """How the first array of a call lies, where that has a name."""
    first = guess.first.replace("W", "D")
    return first if first in LAYOUTS else None


def begun(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    findings: Findings,
    ladder: Sequence[Lengths],
    handed: bool = False,
) -> bool:
    """Whether it attends where another method is called, or called first, or where it is made anew for each call.

    handed: only where it is given what another method returns, as its module does it.
    """
    told = face.description
    method, library = told["method"], any(base.startswith(("torch.nn.", "keras.")) for base in told["bases"])
    lives = [life for life in (told.get("life"),) if life and life != method]
    if told["kind"] == "function" or (handed and not told.get("hands") and not lives):
        return False
    names = [*lives, *(f"{name} then {method}" for name in told.get("hands", ()))] if handed else []
    if method not in ("forward", "call", "__call__") and not told["named"] and not handed:
        names += [name for name in told["methods"] if name != method and name[:1] != "_"][:CALLS]
    starts = () if handed else told.get("starts", ())
    names += [f"{name} then {method}" for name in starts if name not in method.split(" then ")]
    # What it is made of may be matrices.
    making = ["__init__", *told.get("makes", ())] if maker is not None and not library and maker.arguments else []
    made = [f"{name} then {other}" for name in making for other in (names if handed else [method])]
    end = time.monotonic() + SECONDS
    for name in dict.fromkeys([*lives, *made, *names[: 2 * CALLS]]) if handed else [*made, *names[: 2 * CALLS]]:
        if time.monotonic() > end:
            break
        reply, _ = session.ask({"op": "method", "name": name})
        if "error" in reply:
            continue
        other = {**reply["description"], "backend": told["backend"]}
        whole = Interface(other, other["parameters"], face.overrides)
        try:
            check(session, whole, None if name in made else maker, findings, ladder, end - time.monotonic())
        except CallError:
            continue
        return True
    if handed:
        session.ask({"op": "method", "name": method})
    return False


def _raising(face: Interface, failed: Sequence[Tried], findings: Findings) -> bool:
    """Whether all calls that came furthest fail alike, whatever they were given, for what is no matter of arguments.

    That is a name that there is not, its own ``raise`` that stands on no condition, or a call of what an instance has
    with other arguments than that takes.
    """
    furthest = max((tried.reached for tried in failed), default=())
    errors = [tried.error for tried in failed if tried.error is not None and tried.reached == furthest]
    alike = {(error["type"], error["message"], error["line"]) for error in errors}
    if len(alike) != 1 or len(errors) < 2 or errors[0]["line"] is None or errors[0].get("guarded"):
        return False
    first, left = errors[0], {a.name for a in face.arguments if a.default is None and not a.required}
    given = {str(path[0]) for tried in failed for path, _ in tried.guess.kinds}
    if left & tested(str(face.description["file"]), first["line"]) - given:
        # What was never passed may lead past it.
        return False
    if "c10::Half without overflow" in first["message"]:
        # Its own numbers are of half a width.
        findings.add("mask_fp16_overflow", kind="mistake", line=first["line"])
        return True
    missing, source = first.get("missing") or {}, face.description["source"]
    made = re.search(rf"\.{re.escape(str(missing.get('name')))}\s*([,:][^=\n(]*)?=(?!=)", source)
    # What makes nothing itself is a part of what does.
    makes = re.search(r"def (__init__|setup|build)\b", source)
    lacks = missing.get("owner") == "module" or (missing.get("owner") == face.name and makes and not made)
    # An instance may want another method first.
    own = first.get("raised") and face.description["kind"] == "function"
    amiss = first["type"] == "TypeError" and _AMISS.match(first["message"]) and _always(face, first["line"])
    if (not lacks and not own and not amiss and first["type"] not in _NAMELESS) or _perhaps(face, first):
        return False
    findings.raised(first)
    return True


def _always(face: Interface, number: int) -> bool:
    """Whether a line of a method calls what its instance has, whatever it is given: under no condition, all told."""
    file = face.description["file"]
    nodes = [*ast.walk(parsed("".join(linecache.getlines(file)) if file else ""))]
    around = [n for n in nodes if getattr(n, "lineno", number + 1) <= number <= (getattr(n, "end_lineno", 0) or 0)]
    inner = max((n.lineno for n in around if isinstance(n, ast.FunctionDef)), default=0)
    conditions = ast.If | ast.IfExp | ast.Try | ast.Match | ast.BoolOp
    if any(isinstance(n, conditions) and n.lineno > inner for n in around):
        return False
    made = [n for n in around if isinstance(n, ast.Call) and is_own(n.func)]
    return bool(made) and not any(
        isinstance(part, ast.Starred) or (isinstance(part, ast.keyword) and part.arg is None)
        for n in made for part in (*n.args, *n.keywords)
    )  # fmt: skip


def _perhaps(face: Interface, error: Mapping[str, Any]) -> bool:
    """Whether a name has no value that has one under a condition: an argument may decide it, or what is installed."""
    file = face.description["file"]
    source = {"UnboundLocalError": face.whole, "NameError": "".join(linecache.getlines(file)) if file else ""}
    nodes = ast.walk(parsed(source.get(error["type"], "")))
    held = [x for n in nodes if isinstance(n, ast.If | ast.Try) for x in ast.walk(n)]
    names = {x.id for x in held if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    names |= {a.asname or a.name for x in held if isinstance(x, ast.Import | ast.ImportFrom) for a in x.names}
    return any(f"'{name}'" in error["message"] for name in names)


def example(session: Session | Here, face: Interface, given: Sequence[str]) -> dict[str, Any]:
    """Make what somebody gave, and call and record it as they said; what the call came to."""
    made, _ = session.ask({"op": "example", "make": given[0], "call": given[1]})
    if "error" in made:
        raise CallError(f"the example cannot be made: {made['error']['type']}: {made['error']['message']}")
    return _exemplary(session, face, made)


def overheard(session: Session | Here, face: Interface) -> dict[str, Any] | None:
    """Call and record what its own file calls as that does; what the call came to, None where there is none."""
    if isinstance(session, Here) or session.forked:
        # What calls it there may be what checks it.
        return None
    with suppress(EndedError):
        heard: dict[str, Any] = {"op": "overhear", "method": face.description["method"], "heard": False}
        made, _ = session.ask(heard)
        guessed = "error" in made and _through(session, face)
        if guessed:
            made, _ = session.ask(heard | {"heard": True})
        told = None if "error" in made else _exemplary(session, face, made)
        if guessed and told and "faults" in told.get("judged", {}):
            # Of what sort masks are was a guess at what its caller is given.
            told["judged"]["faults"] = [f for f in told["judged"]["faults"] if f["mistake"] not in SORTS]
        return told
    return None


def _through(session: Session, face: Interface) -> bool:
    """Whether a call of what uses it in its file comes to it: such calls are looked for as its own are."""
    told = face.description
    target = f"{told['file']}:{told['name']}" + (f".{told['named']}" if told["named"] else "")
    reply, _ = session.ask({"op": "users"})
    for name in reply.get("names", ())[:_USERS]:
        load = {"op": "load", "target": target, "user": name, "method": told["method"]}
        reply, _ = session.ask(load)
        if "error" in reply:
            continue
        user = reply["description"]
        user = {**user, "backend": told["backend"]}
        whole = Interface(user, user["parameters"], {})
        maker = Interface(user, user["constructor"], {}) if user["kind"] == "class" else None
        end, refused = time.monotonic() + _LISTENING, list[Tried]()
        for handle, lengths, named in instances(session, whole, beside.Made(session, maker), refused, calls.LADDER):
            search = Search(session, whole, Caller(session, whole, handle).replies, lengths, most=TURN, named=named)
            for _ in search.run():
                if any((tried.error or {}).get("type") == HeardError.__name__ for tried in search.tried):
                    session.ask({"op": "load", "target": target})
                    return True
                if time.monotonic() > end:
                    break
            if time.monotonic() > end:
                break
    session.ask({"op": "load", "target": target})
    return False


def _exemplary(session: Session | Here, face: Interface, made: dict[str, Any]) -> dict[str, Any]:
    """Call and record an example."""
    caller = Caller(session, face, made["given"] if made["method"] else None)
    one = caller.spec([], {}, example=True, dtype=made["dtype"], record=face.intents)
    reply, _ = session.ask({"op": "call", "handle": made["given"], "calls": [one]})
    return reply["replies"][0] if "replies" in reply else reply
