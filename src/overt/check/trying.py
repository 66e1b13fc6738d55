"""Calls found by trying, recorded and judged: for what names and documentation do not explain."""

from __future__ import annotations

import ast
import linecache
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from overt.check.calls import call as calls
from overt.check.calls.call import Guess, Lengths, Tried
from overt.check.calls.search import Search
from overt.check.findings import Findings
from overt.check.making import instances
from overt.check.process.overhearing import HeardError
from overt.check.process.session import EndedError, Here, Session
from overt.check.report import CallError, CheckerError, UnattendedError
from overt.check.text.interface import Interface
from overt.check.text.roles import LAYOUTS
from overt.check.text.syntax import blocks, is_own, parsed
from overt.check.varied import beside, continuing, contracts, effects, outside, reordering, repeating, slips
from overt.check.varied.asking import Caller, Way, probe
from overt.check.varied.choices import chosen
from overt.check.varied.varying import SORTS, Found, kinder, kinds_of, names, optional, square

# Calls of one request that are looked into, and of all.
_CALLS, _RAN = 4, 8
# Calls of one instance before it is the turn of one that came as far, and turns before that of the least called.
_TURN, _LEAST = 200, 4
_NAMELESS = ("NameError", "UnboundLocalError", "MemoryError", "SystemExit", "KeyboardInterrupt")
# Seconds after which no other call is looked for, of all other methods together too, and after one that attends.
_SECONDS, _LATE = 20.0, 6.0
# Calls that are tried beyond one that attends: on a busy machine as many as on an idle one, in a second or two there.
_MORE, _OTHERS = {"numpy": 1000, "jax": 8}, 400
# Steps that may be left untried, as a mask is that nobody gives, where no other call is looked for.
_ENOUGH = 2
# What something says that was called with other arguments than it takes.
_AMISS = re.compile(
    r"[A-Za-z][\w.]*\(\) (missing \d+ required .*argument|got an unexpected keyword|takes .* but \d+ w(as|ere) given)"
)
# Numbers that may be too small, where they say how many keys there are.
_FEW = ("side", "2", "1", "number of heads")
# What uses a candidate that is called for it, and seconds for each.
_USERS, _LISTENING = 3, 5.0
# Positions of which enough can be seen; keys where few blocks have but one, and where few have all.
_PLENTY, _LONG, _LONGER = 5, 16, 40


def check(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    findings: Findings,
    ladder: Sequence[Lengths] = calls.LADDER,
    seconds: float = _SECONDS,
) -> None:
    """Find a call that works and that attends, and judge its steps.  Raises CallError where there is none.

    No other call is looked for after so many seconds.
    """
    ran: list[Tried] = []
    ran_on: list[tuple[int | None, Guess]] = []
    found: list[Found] = []
    unsure: list[Found] = []
    refused: list[Tried] = []
    broken: list[str] = []
    searches: list[tuple[int | None, Search, Iterator[list[Tried]]]] = []
    made = beside.Made(session, maker)

    end, most = time.monotonic() + seconds, calls.MOST

    def tried_calls() -> int:
        return sum(len(search.tried) for _, search, _ in searches)

    def look(handle: int | None, some: list[Tried]) -> bool:
        """Whether what runs is enough."""
        nonlocal end, most
        caller = Caller(session, face, handle)
        for tried in some[:_CALLS]:
            (judged,) = caller.recorded(tried.guess)
            if "error" in judged:
                # Another call may be of a kind that is foreseen.
                broken.append(judged["error"])
                ran[:] = ran or [tried]
                continue
            ran.append(tried)
            ran_on.append((handle, tried.guess))
            others = []
            if tried.guess.dtype != "float64":
                # On the way to what runs the numbers may have become narrow for nothing.
                others.append(replace(tried.guess, dtype="float64"))
            astray = any("could not be followed" in entry["why"] for entry in judged.get("ledger", ()))
            kept = astray and any(kind[:3] == "by " for _, kind in tried.guess.kinds)
            spans = judged.get("facts", {}).get("spans") or [{"keys": 0}]
            if kept or judged.get("facts", {}).get("pieces") or "pages" in dict(tried.guess.kinds).values():
                # Pages may be read a few at a time.
                others.append(_longer(tried.guess))
            elif _cut(spans):
                # Of the last piece, which is no whole one, little can be seen.
                others.append(tried.guess.sized(S=_LONG, T=_LONG))
            elif blocks(face.whole):
                # Blocks that are as wide as that have all keys in one.
                others.append(tried.guess.sized(S=_LONGER, T=_LONGER))
            if 1 < tried.guess.lengths.T == tried.guess.lengths.S < _PLENTY:
                # Of two positions little can be seen.
                others.append(replace(tried.guess, lengths=replace(tried.guess.lengths, T=_PLENTY, S=_PLENTY)))
            counted = [path for path, kind in tried.guess.kinds if kind == "lengths"]
            n = tried.guess.lengths
            if n.H > 1 and n.H in (n.T, n.S):
                # Heads that are as many as positions hide where one is taken for the other.
                others.append(tried.guess.sized(T=n.T + (n.T == n.H), S=n.S + (n.S == n.H)))
            if counted and n.T < n.S and {one["keys"] for one in spans} == {n.T}:
                # What counts more keys than there are hides none.
                others.append(tried.guess.given(counted[0], calls.SHORTER))
            if face.batches_first is False and {one["keys"] for one in spans} == {tried.guess.lengths.B}:
                # What was taken for samples are the positions.
                others.append(tried.guess.turned)
            for other in others:
                (again,) = caller.recorded(other)
                if again.get("cores"):
                    tried, judged = Tried(other, {}), again
            if "additive_ignores_keys" in names(judged):
                # Keys that are lost in a loop over numbers do enter.
                judged = outside.read(caller, square(tried.guess)) or outside.read(caller, tried.guess) or judged
            # Widths and lengths of 1 hide what can be wrong.
            left = (entry["step"] for entry in judged.get("ledger", ()) if entry["outcome"] == "not tried")
            # The same of each attention is one thing.
            lost = len({step.rpartition(", ")[2] for step in left})
            single = any("1" in kind for _, kind in tried.guess.kinds if kind in calls.FLOATS)
            few = pairs and (single or tried.guess.lengths.T == 1)
            one = Found(lost, handle, tried.guess, judged, kinds_of(face, tried.guess), few)
            # Weights alone may be those of another call than is meant.
            seen = (e["step"] for e in judged.get("ledger", ()) if e["outcome"] != "not tried")
            if any(not step.endswith("weights") for step in seen) and not one.gates:
                found.append(one)
                if not one.doubtful:
                    end = min(end, time.monotonic() + _LATE)
                    most = min(most, tried_calls() + _MORE.get(face.description["backend"], _OTHERS))
            elif judged.get("cores") and not one.gates:
                unsure.append(one)
                # Perhaps too few keys are let through by a number.
                more = (path for path, kind in tried.guess.kinds if kind in _FEW)
                longer = [Tried(tried.guess.given(path, "length"), {}) for path in more]
                if longer and look(handle, longer[:1]):
                    return True
                # Or by one that the instance was made of.
                own = made.of(caller)
                reach = [path[0] for path, kind in own[0].kinds if kind == "0"] if own and len(unsure) == 1 else []
                for name in reach:
                    wider = made.other(caller, {name: 2})
                    if wider is not None and look(wider.handle, [tried]):
                        return True
            if found and lost < _ENOUGH and not found[-1].doubtful:
                return True
            # Of what is doubtful there may be more before something is sure.
            if len(ran) >= _RAN + min(2 * _RAN, sum(one.doubtful for one in found)):
                return True
        return len(ran) >= _RAN and not found

    enough, pairs = False, face.intents["pairs"]
    for handle, lengths, named in instances(session, face, made, refused, ladder):
        search = Search(session, face, _asking(session, face, handle), lengths, named=named)
        searches.append((handle, search, search.run()))
        enough = look(handle, next(searches[-1][2], []))
        if enough or time.monotonic() > end or tried_calls() >= most:
            break
    # Of several instances, that whose calls came furthest is called on, in turns with others that came as far; now and
    # then the one that was called least, for what is no right instance may come far.
    going = list(searches)
    turn = 0
    while not enough and going and time.monotonic() < end and tried_calls() < most:
        turn += 1
        best = max(going, key=lambda one: (one[1].reached, -(len(one[1].tried) // _TURN)))
        best = best if turn % _LEAST else min(going, key=lambda one: len(one[1].tried))
        some = next(best[2], None)
        if some is None or (len(searches) > 1 and len(best[1].tried) >= calls.MOST // 2):
            going.remove(best)
        enough = look(best[0], some or [])
    if found or unsure:
        one = min(found or unsure[:1], key=Found.rank)
        one = kinder(Caller(session, face, one.handle), one, made)
        unclear = one.doubtful if one.faults else not one.weighs
        if unclear and slips.attends(session, face, Caller(session, face, one.handle), one.guess, findings):
            return
        if one.faults and unclear:
            raise CallError(
                f"{face.name} runs, with {one.guess.shown}, but what its arguments are is not sure enough to judge it "
                "by: give a call with --example"
            )
        findings.convention["called with"] = str(one.guess)
        layout = _layout(one.guess)
        if layout is not None:
            findings.convention["layout"] = layout
        caller = Caller(session, face, one.handle)
        seen, masks, ran_with = optional(caller, one, findings)
        other = beside.resized(made, caller, one.guess, one.judged)
        more = [*seen, *beside.wider(caller, one.guess, one.judged)]
        more += beside.overrun(made, caller, one.guess, one.judged)
        if "one key" in one.judged["facts"] and (again := repeating.again(caller, one.guess)).get("cores"):
            more.append(again)
        if "one pair" in one.judged["facts"]:
            more += beside.resized(made, caller, one.guess, one.judged, beside.broader)
        judged = chosen(caller, one.guess, made, [one.judged, *more])
        findings.conclude([beside.settled(told, other) for told in judged])
        handle, search, _ = next((some for some in searches if some[0] == one.handle), searches[0])
        if not one.guess.told:
            # What is documented runs as it is.
            beside.turned(replace(caller, handle=handle), search.tried, one.guess, findings)
        beside.grouped(made, caller, one.guess, findings)
        facts = [told["facts"] for told in (one.judged, *other)]
        beside.scaled(made, caller, one.guess, facts, findings)
        beside.filled(caller, one.guess, facts, findings)
        raw = made.training(caller)
        probe(caller, one.guess, masks, one.judged["facts"], findings, ran_with, raw or caller)
        contracts.check(caller, one.guess, one.judged["facts"], findings)
        contracts.options(caller, one.guess, made, one.judged["facts"], findings)
        if (one.judged["cores"], facts[0].get("queries")) != (1, 1):
            # Where each position asks by itself, these are samples.
            continuing.check(caller, one.guess, made, findings)
        if "one key" in one.judged["facts"]:
            repeating.stepped(caller, one.guess, findings)
        reordering.given(caller, one.guess, findings)
        effects.check(made, caller, one.guess, findings)
        return
    callers = [(Caller(session, face, handle), guess) for handle, guess in ran_on[:_CALLS]]
    if any(repeating.repeated(caller, guess, findings) for caller, guess in callers):
        return
    # What runs and does not attend does not attend where all axes are equal.
    for handle, search, _ in searches if not ran else ():
        if beside.turned(Caller(session, face, handle), search.tried, None, findings):
            findings.convention["called with"] = "arrays all of whose axes are equal"
            return
    for caller, guess in callers:
        outer = outside.read(caller, guess)
        if outer.get("cores"):
            findings.convention["called with"] = str(guess)
            again = outside.read(caller, beside.elsewhere(guess)) if caller.handle is None else {}
            other = [again] if again.get("cores") else []
            findings.conclude([beside.settled(outer, other)])
            facts = [one["facts"] for one in (outer, *other)]
            beside.scaled(made, caller, guess, facts, findings, outside.read)
            contracts.rests(caller, guess, made, findings)
            return
    if broken:
        raise CheckerError(
            f"{face.name} runs, with {ran[0].guess.shown}, and what it computes could not be judged "
            f"({broken[0].strip().splitlines()[-1]}): the checker is wrong here, give it another call with --example"
        )
    if ran:
        says = f"{face.name} runs, with {ran[0].guess.shown}, and no attention was found inside"
        raise UnattendedError(says, *callers[:1])
    failed = [tried for _, search, _ in searches for tried in search.tried] or refused
    if _raising(face, failed, findings):
        return
    far = sorted(failed, key=lambda t: t.reached, reverse=True)[:2]
    shown = "; ".join(map(str, far))
    told = (
        f"{len(failed)} calls were tried, and those that came furthest are {shown}" if far else "there is none to try"
    )
    raise CallError(f"no call of {face.name} works: {told}.  Give a call that works with --example")


def _cut(spans: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one line attends to some keys, and then to these and fewer more."""
    lines: dict[Any, set[int]] = {}
    for span in spans:
        lines.setdefault(span.get("line"), set()).add(span["keys"])
    return any(len(keys) > 1 and sorted(keys)[1] < 2 * min(keys) for keys in lines.values())


def _longer(guess: Guess) -> Guess:
    """With so many keys that every block of them has several."""
    crossed = any("S" in kind for _, kind in guess.kinds if calls.is_floats(kind))
    return guess.sized(S=_LONG, T=guess.lengths.T if crossed else _LONG)


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
    method, library = told["method"], any(base.startswith(("torch.nn", "keras")) for base in told["bases"])
    lives = [life for life in (told.get("life"),) if life and life != method]
    if told["kind"] == "function" or (handed and not told.get("hands") and not lives):
        return False
    names = [*lives, *(f"{name} then {method}" for name in told.get("hands", ()))] if handed else []
    if method not in ("forward", "call", "__call__") and not handed:
        names += [name for name in told["methods"] if name != method and name[:1] != "_"][:_CALLS]
    starts = () if handed else told.get("starts", ())
    names += [f"{name} then {method}" for name in starts if name not in method.split(" then ")]
    # What it is made of may be matrices.
    making = ["__init__", *told.get("makes", ())] if maker is not None and not library and maker.arguments else []
    made = [f"{name} then {other}" for name in making for other in (names if handed else [method])]
    end = time.monotonic() + _SECONDS
    for name in dict.fromkeys([*lives, *made, *names[: 2 * _CALLS]]) if handed else [*made, *names[: 2 * _CALLS]]:
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
    first = errors[0]
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


def _asking(session: Session | Here, face: Interface, handle: int | None) -> Any:
    caller = Caller(session, face, handle)
    extra = {"search": True}
    return lambda guesses: [answer.reply for answer in caller.ask([Way(guess, extra=extra) for guess in guesses])]


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
    target = f"{told['file']}:{told['name']}"
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
            search = Search(session, whole, _asking(session, whole, handle), lengths, most=_TURN, named=named)
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
