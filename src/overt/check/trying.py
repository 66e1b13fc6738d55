"""Calls found by trying, recorded and judged: for what names and documentation do not explain."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from overt.check import beside, calls, continuing, contracts, effects, outside
from overt.check.asking import Answer, Caller, Way, differ, probe
from overt.check.calls import Guess, Lengths, Tried
from overt.check.findings import Findings
from overt.check.interface import Interface
from overt.check.recorded import enter, tell
from overt.check.report import CallError, UnattendedError
from overt.check.roles import LAYOUTS, Argument, constructor_role
from overt.check.search import Search
from overt.check.session import Here, Session

# Instances, calls of one request that are looked into and of all, and constructors that are tried.
_MADE, _CALLS, _RAN, _BUILT = 16, 4, 8, 360
# Pairs of arguments that are given together.
_PAIRS = 10
_NAMELESS = ("NameError", "UnboundLocalError", "ModuleNotFoundError", "MemoryError", "SystemExit", "KeyboardInterrupt")
_WIDTHS = ("width of all", "number of heads", "width of a head", "length", "number of key heads", "another width")
_FACTORS = ("scale", "1.0", "0.0", "root of a width")
# Seconds after which no other call is looked for, and after one that attends.
_SECONDS, _MORE = 20.0, 3.0
# Steps that may be left untried, as a mask is that nobody gives, where no other call is looked for.
_ENOUGH = 2
_ADDED = tuple(kind for kind in calls.MASKS if kind.startswith("added"))
# Numbers that may be too small, where they say how many keys there are.
_FEW = ("side", "2", "1", "number of heads")
_MASKS = tuple(kind for kind in calls.MASKS if kind not in _ADDED)
# Keys where few blocks have but one.
_LONG = 16
# What an argument of these names hides, and numbers that show what one of those does.
_HIDE, _NUMBERS = ("mask", "padding", "lengths"), {"cap": 0.7, "window": 2}


class _Found(NamedTuple):
    """A call that attends: how many steps of it could not be judged, and what it came to."""

    lost: int
    handle: int | None
    guess: Guess
    judged: dict[str, Any]
    # the kinds of its arrays, in their order
    arrays: Sequence[str] = ()
    # whether one query is given where those that are meant have a length of their own
    one: bool = False

    @property
    def doubtful(self) -> bool:
        """Whether what was seen contradicts what the arguments were taken for: what is attended to has positions."""
        if self.guess.told:
            # Of what is documented there is no doubt.
            return self.guess.lengths.T == 1
        attended = [self.arrays[n] for n in self.judged["facts"].get("attended", ()) if n < len(self.arrays)]
        weights = bool(attended) and not any(set(kind) & set("TSNnh") for kind in attended)
        # What the module makes may have positions.
        weights = weights and not any(kind[:3] == "by " for _, kind in self.guess.kinds)
        # Tables of positions have no samples.
        return calls.mixed([*self.arrays[:1], *attended]) or weights or self.one

    @property
    def gates(self) -> bool:
        """Whether what was seen is a gate before what it is multiplied with, and no attention."""
        attended = [self.arrays[n] for n in self.judged["facts"].get("attended", ()) if n < len(self.arrays)]
        plain = bool(attended) and not any(set(kind) & set("TSNnh") for kind in attended)
        return plain and any((e["step"], e["outcome"]) == ("softmax", "not tried") for e in self.judged["ledger"])

    @property
    def faults(self) -> int:
        """How many mistakes were seen."""
        return len(self.judged.get("faults", ()))

    def rank(self) -> tuple[bool, bool, int, int]:
        """The least is the best."""
        return self.doubtful, self.guess.dtype != "float64", self.lost, self.faults


def check(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    findings: Findings,
    ladder: Sequence[Lengths] = calls.LADDER,
) -> None:
    """Find a call that works and that attends, and judge its steps.  Raises CallError where there is none."""
    ran: list[Tried] = []
    ran_on: list[tuple[int | None, Guess]] = []
    found: list[_Found] = []
    unsure: list[_Found] = []
    refused: list[Tried] = []
    searches: list[tuple[int | None, Search, Iterator[list[Tried]]]] = []
    made = beside.Made(session, maker)

    end = time.monotonic() + _SECONDS

    def look(handle: int | None, some: list[Tried]) -> bool:
        """Whether what runs is enough."""
        nonlocal end
        for tried in some[:_CALLS]:
            ran.append(tried)
            ran_on.append((handle, tried.guess))
            judged = _judged(session, face, handle, [tried.guess])[0]
            others = []
            if tried.guess.dtype != "float64":
                # On the way to what runs the numbers may have become narrow for nothing.
                others.append(replace(tried.guess, dtype="float64"))
            if judged.get("facts", {}).get("pieces"):
                others.append(_longer(tried.guess))
            for other in others:
                again = _judged(session, face, handle, [other])[0]
                if again.get("cores"):
                    tried, judged = Tried(other, {}), again
            if "additive_ignores_keys" in _names(judged):
                # Keys that are lost in a loop over numbers do enter.
                caller = Caller(session, face, handle)
                judged = outside.read(caller, _square(tried.guess)) or outside.read(caller, tried.guess) or judged
            # Widths and lengths of 1 hide what can be wrong.
            left = (entry["step"] for entry in judged.get("ledger", ()) if entry["outcome"] == "not tried")
            # The same of each attention is one thing.
            lost = len({step.rpartition(", ")[2] for step in left})
            single = any("1" in kind for _, kind in tried.guess.kinds if kind in calls.FLOATS)
            few = pairs and (single or tried.guess.lengths.T == 1)
            one = _Found(lost, handle, tried.guess, judged, _kinds(face, tried.guess), few)
            if any(entry["outcome"] != "not tried" for entry in judged.get("ledger", ())) and not one.gates:
                found.append(one)
                if not one.doubtful:
                    end = min(end, time.monotonic() + _MORE)
            elif judged.get("cores") and not one.gates:
                unsure.append(one)
                # Perhaps too few keys are let through by a number.
                more = (path for path, kind in tried.guess.kinds if kind in _FEW)
                longer = [Tried(tried.guess.given(path, "length"), {}) for path in more]
                if longer and look(handle, longer[:1]):
                    return True
            if found and lost < _ENOUGH and not found[-1].doubtful:
                return True
            # Of what is doubtful there may be more before something is sure.
            most = _RAN + min(2 * _RAN, sum(one.doubtful for one in found))
            if len(ran) >= most:
                return True
        return len(ran) >= _RAN and not found

    enough, pairs = False, face.intents["pairs"]
    for handle, lengths, named in _made(session, face, made, refused, ladder):
        search = Search(session, face, _asking(session, face, handle), lengths, named=named)
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
    if found or unsure:
        one = _kinder(session, face, min(found or unsure[:1], key=_Found.rank), made)
        if one.faults and one.doubtful:
            raise CallError(
                f"{face.name} runs, with {one.guess}, but what its arguments are is not sure enough to judge it by: "
                "give a call with --example"
            )
        findings.convention["called with"] = str(one.guess)
        layout = _layout(one.guess)
        if layout is not None:
            findings.convention["layout"] = layout
        caller = Caller(session, face, one.handle)
        seen, masks, ran_with = _optional(caller, one, findings)
        conclude(findings, [one.judged, *seen, *beside.wider(caller, one.guess, one.judged)])
        handle, search, _ = next((some for some in searches if some[0] == one.handle), searches[0])
        if not one.guess.told:
            # What is documented runs as it is.
            beside.turned(replace(caller, handle=handle), search.tried, one.guess, findings)
        beside.grouped(made, caller, one.guess, findings)
        raw = made.training(caller)
        probe(caller, one.guess, masks, one.judged["facts"], findings, ran_with, raw or caller)
        contracts.check(caller, one.guess, one.judged["facts"], findings)
        contracts.options(caller, one.guess, made, one.judged["facts"], findings)
        continuing.check(session, face, one.handle, one.guess, findings)
        effects.check(made, caller, one.guess, findings)
        return
    if ran and _repeated(session, face, ran_on, findings):
        return
    # What runs and does not attend does not attend where all axes are equal.
    for handle, search, _ in searches if not ran else ():
        if beside.turned(Caller(session, face, handle), search.tried, None, findings):
            findings.convention["called with"] = "arrays all of whose axes are equal"
            return
    for number, guess in ran_on[:_CALLS]:
        outer = outside.read(Caller(session, face, number), guess)
        if outer.get("cores"):
            findings.convention["called with"] = str(guess)
            conclude(findings, [outer])
            return
    if ran:
        raise UnattendedError(f"{face.name} runs, with {ran[0].guess}, and no attention was found inside")
    failed = [tried for _, search, _ in searches for tried in search.tried] or refused
    if _raising(face, failed, findings):
        return
    far = sorted(failed, key=lambda t: t.reached, reverse=True)[:2]
    shown = "; ".join(map(str, far))
    told = (
        f"{len(failed)} calls were tried, and those that came furthest are {shown}" if far else "there is none to try"
    )
    raise CallError(f"no call of {face.name} works: {told}.  Give a call that works with --example")


def _longer(guess: Guess) -> Guess:
    """With so many keys that every block of them has several."""
    crossed = any("S" in kind for _, kind in guess.kinds if calls.is_floats(kind))
    return replace(guess, lengths=replace(guess.lengths, S=_LONG, T=guess.lengths.T if crossed else _LONG))


def _square(guess: Guess) -> Guess:
    """With as many keys as queries: a mask may be meant for these alone."""
    return replace(guess, lengths=replace(guess.lengths, S=guess.lengths.T))


def _kinds(face: Interface, guess: Guess) -> list[str]:
    """The kinds of the arrays of a call, in their order."""
    kinds = {".".join(path): kind for path, kind in guess.kinds}
    return [kinds[name] for name in calls.specs(guess, face)[2]]


def _layout(guess: Guess) -> str | None:
    """How the first array of a call lies, where that has a name."""
    first = next((kind for _, kind in guess.kinds if calls.is_floats(kind)), "").replace("W", "D")
    return first if first in LAYOUTS else None


def begun(
    session: Session | Here,
    face: Interface,
    maker: Interface | None,
    findings: Findings,
    ladder: Sequence[Lengths],
) -> bool:
    """Whether it attends where another method is called, or called first, or where it is made anew for each call."""
    told = face.description
    if told["kind"] == "function":
        return False
    method, library = told["method"], any(base.startswith(("torch.nn", "keras")) for base in told["bases"])
    names = []
    if method not in ("forward", "call", "__call__"):
        names += [name for name in told["methods"] if name != method and name[:1] != "_"][:_CALLS]
    names += [f"{name} then {method}" for name in told.get("starts", ()) if name not in method.split(" then ")]
    # What it is made of may be matrices.
    made = [f"__init__ then {method}"] if maker is not None and not library and maker.arguments else []
    for name in [*made, *names[: 2 * _CALLS]]:
        reply, _ = session.ask({"op": "method", "name": name})
        if "error" in reply:
            continue
        other = {**reply["description"], "backend": told["backend"]}
        whole = Interface(other, other["parameters"], face.overrides)
        try:
            check(session, whole, None if name in made else maker, findings, ladder)
        except CallError:
            continue
        return True
    return False


def _raising(face: Interface, failed: Sequence[Tried], findings: Findings) -> bool:
    """Whether all calls that came furthest fail alike, whatever they were given, for what is no matter of arguments.

    That is a name that there is not, or its own ``raise`` that stands on no condition.
    """
    furthest = max((tried.reached for tried in failed), default=())
    errors = [tried.error for tried in failed if tried.error is not None and tried.reached == furthest]
    alike = {(error["type"], error["message"], error["line"]) for error in errors}
    if len(alike) != 1 or len(errors) < 2 or errors[0]["line"] is None or errors[0].get("guarded"):
        return False
    first = errors[0]
    missing = first.get("missing") or {}
    made = re.search(rf"\.{re.escape(str(missing.get('name')))}\s*([,:][^=\n(]*)?=(?!=)", face.description["source"])
    lacks = missing.get("owner") == "module" or (missing.get("owner") == face.name and not made)
    # An instance may want another method first.
    own = first.get("raised") and face.description["kind"] == "function"
    if not lacks and not own and first["type"] not in _NAMELESS:
        return False
    findings.raised(first)
    return True


def _kinder(session: Session | Here, face: Interface, found: _Found, made: beside.Made) -> _Found:
    """A call with another factor or another mask: what another one mends is no mistake of the candidate."""
    masks = _ADDED if face.declared_mask() == "additive" else () if face.boolean_mask else calls.MASKS
    masks = () if face.declared_mask() in ("keep", "drop") else masks
    names = {a.name: Search(session, face, lambda guesses: []).told(a) for a in face.arguments}

    def numbers(name: str) -> tuple[str, ...]:
        # One head would mend what is wrong with several.
        return _FACTORS if names.get(name) else (*_FACTORS, "length", "side", "width of a head", "number of heads")

    others = [
        found.guess.given(path, other)
        for path, kind in found.guess.kinds
        # What the module makes is made of widths.
        if not (len(path) > 1 and kind in _WIDTHS and dict(found.guess.kinds)[path[:1]][:3] == "by ")
        for other in (numbers(path[0]) if kind in calls.VALUES else masks if calls.is_mask(kind) else ())
        if other != kind and path[0] not in face.overrides
    ]
    if not found.faults:
        return found
    told = [(found.handle, guess, judged)
            for guess, judged in zip(others, _judged(session, face, found.handle, others), strict=True)]  # fmt: skip
    built = made.guesses.get(-1 if found.handle is None else found.handle)
    if built is not None and any(fault["step"] == "scale" for fault in found.judged["faults"]):
        # A factor that the constructor was given.
        given = [(path, kind) for path, kind in built.kinds if kind in _FACTORS]
        for path, other in ((path, other) for path, kind in given for other in _FACTORS if other != kind):
            reply = made.build(built.given(path, other))
            if "error" not in reply:
                judged = _judged(session, face, reply["handle"], [found.guess])[0]
                told.append((reply["handle"], found.guess, judged))
    for guess in _fitting(Caller(session, face, found.handle), found, made):
        judged = _judged(session, face, found.handle, [guess])[0]
        told.append((found.handle, guess, judged | {"shapes": found.judged["shapes"]}))
    best = found
    # What is said to be added is.
    wanted = face.declared_mask() == "additive"
    for handle, guess, judged in told:
        added = wanted and "added" in str(guess) and "added" not in str(best.guess)
        fewer = added or len(judged.get("faults", ())) < best.faults
        if judged.get("cores") and judged["shapes"] == found.judged["shapes"] and fewer:
            best = _Found(found.lost, handle, guess, judged, _kinds(face, guess), found.one)
    return best


def _fitting(caller: Caller, found: _Found, made: beside.Made) -> list[Guess]:
    """The call with heads as wide as a configuration, or a constructor that knows of no heads, says that they are."""
    if not any(fault["step"] == "scale" for fault in found.judged["faults"]):
        return []
    told = caller.face.description["configs"]
    numbers = made.numbers(caller) | {k: n for i in caller.face.configs.values() for k, n in told[i]["numbers"].items()}
    roles = {name: constructor_role(name) for name, n in numbers.items() if type(n) is int and n > 1}
    wanted = "head_dim" if "head_dim" in roles.values() else None if "heads" in roles.values() else "model_dim"
    widths = {numbers[name] for name, one in roles.items() if one == wanted and wanted}
    letters = {kind[-1] for _, kind in found.guess.kinds if calls.is_floats(kind)}
    lengths = found.guess.lengths
    return [replace(found.guess, lengths=lengths.resized(letter, n)) for letter in sorted(letters) for n in widths
            if letter not in calls.PLAIN and lengths.axis(letter) != n]  # fmt: skip


def _repeated(
    session: Session | Here, face: Interface, ran: Sequence[tuple[int | None, Guess]], findings: Findings
) -> bool:
    """Whether calls attend together that do not each: one token at a time, or weights that were remembered."""
    for handle, guess in ran[:_CALLS]:
        if continuing.forgets_query(session, face, handle, guess):
            findings.add("cache_key")
            return True
        told = continuing.steps(session, face, handle, guess) if handle is not None else {}
        if any(entry["outcome"] != "not tried" for entry in told.get("ledger", ())):
            findings.convention["called with"] = f"{guess}, again and again"
            conclude(findings, [told])
            return True
    return False


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
    maker: beside.Made,
    failed: list[Tried],
    ladder: Sequence[Lengths],
) -> Iterator[tuple[int | None, Sequence[Lengths], dict[str, int]]]:
    """Handles of instances, or None for a function; the lengths that it may be called with, and numbers with names."""
    kind = face.description["kind"]
    if kind == "function":
        # Weights of its module have widths, as those of an instance have.
        names = [name for name in face.description["globals"] if name not in face.misread]
        _, arrays = session.ask({"op": "globals", "names": names}) if names else ({}, {})
        shapes = [x.shape for x in arrays.values() if x.dtype.kind == "f"]
        # So have those that stand in a configuration of its module.
        held = {name: n for i in face.configs.values() for name, n in face.description["configs"][i]["numbers"].items()}
        shapes += [(n, n) for n in held.values() if 4 < n < 512]
        lengths = _lengths({"shapes": shapes, "numbers": held}, None, ladder) if shapes else ladder
        lengths = [_configured(n, held) for n in lengths] if len(ladder) > 1 else ladder
        yield None, lengths, _defaults(face) | held
        return
    made: dict[Guess, dict[str, Any]] = {}

    def build(guesses: Sequence[Guess]) -> list[dict[str, Any]]:
        replies = []
        for guess in guesses:
            made[guess] = maker.build(guess)
            replies.append(made[guess])
        return replies

    if maker.maker is None:
        reply, _ = session.ask({"op": "build", "seed": 1})
        if "error" not in reply:
            yield reply["handle"], _lengths(reply, None, ladder), _whole(reply["numbers"])
        return
    search = Search(session, maker.maker, build, ladder, calls.NUMBERS, ("float64",), _BUILT)
    known: list[Any] = []
    for some in search.run():
        for tried in some:
            reply = made[tried.guess]
            like = reply["shapes"], reply["numbers"]
            if like not in known and len(known) < _MADE:
                known.append(like)
                given = {p[-1]: calls.VALUES[k](tried.guess.lengths) for p, k in tried.guess.kinds if k in calls.VALUES}
                named = _defaults(maker.maker) | _whole(reply["numbers"]) | _whole(given)
                yield reply["handle"], _lengths(reply, tried.guess.lengths, ladder), named
        if len(known) >= _MADE or (known and len(search.tried) >= calls.BATCH * 2):
            break
    failed += [tried for tried in search.tried if tried.error is not None]


def _configured(lengths: Lengths, numbers: Mapping[str, int]) -> Lengths:
    """Heads as many, and as wide, as a configuration says."""
    letters = {"heads": "H", "groups": "G", "head_dim": "D"}
    told = {letters[one]: n for name, n in numbers.items() if (one := constructor_role(name)) in letters}
    return replace(lengths, **told) if "D" in told else lengths  # type: ignore[arg-type]


def _defaults(face: Interface) -> dict[str, int]:
    return _whole({a.name: a.default for a in face.arguments})


def _whole(numbers: dict[str, Any]) -> dict[str, int]:
    """Of numbers by their names those that may be lengths."""
    return {name: n for name, n in numbers.items() if type(n) is int and 0 < n < 512}


def _lengths(reply: dict[str, Any], built: Lengths | None, ladder: Sequence[Lengths]) -> Sequence[Lengths]:
    """Lengths that fit an instance: widths are sides of its matrices, and any number that it holds may be a length."""
    if len(ladder) == 1:
        # They were given.
        return ladder
    sides = [n for shape in reply["shapes"] if len(shape) > 1 for n in shape if n > 1]
    widths = sorted(dict.fromkeys(sides), key=lambda n: -sides.count(n)) or [built.W if built else 12]
    if built is not None:
        # What several inputs side by side are multiplied with has a multiple of their width.
        widths += [built.W] * (built.W not in widths and any(width % built.W == 0 for width in widths))
        widths.sort(key=lambda width: width != built.W)
    held = [int(n) for n in reply["numbers"].values() if 1 < n < 200 and n == int(n)]
    sizes = dict.fromkeys(
        [5, *held, *(n * n for n in held if n < 20), *(n for n in sides if n < 200),
                           *(n - 1 for n in sides if 2 < n < 200), 8, 16, 49, 64])  # fmt: skip
    found = []
    for width in widths[:3]:
        heads = next((n for n in held if width % n == 0 and n < width), 1)
        heads = built.H if built is not None and width % built.H == 0 else heads
        # What is as wide as nothing else here may be two widths one after the other.
        others = dict.fromkeys([*(n for n in widths if n != width), 2 * width])
        found += [Lengths(2, heads, 5, S, max(1, width // heads), width, U=other) for other in others for S in (7, 5)]
        found += [Lengths(2, heads, n, n, max(1, width // heads), width) for n in sizes]
    found.sort(key=lambda n: (widths[0] != n.W, n.T != 5, n.S == 5, n.U != 2 * n.W))
    return found[:32]


def _asking(session: Session | Here, face: Interface, handle: int | None) -> Any:
    caller = Caller(session, face, handle)
    extra = {"search": True}
    return lambda guesses: [answer.reply for answer in caller.ask([Way(guess, extra=extra) for guess in guesses])]


def _judged(
    session: Session | Here, face: Interface, handle: int | None, guesses: Sequence[Guess]
) -> list[dict[str, Any]]:
    ways = [Way(guess, extra={"record": face.intents}) for guess in guesses]
    return [answer.judged for answer in Caller(session, face, handle).ask(ways)]


def _optional(caller: Caller, found: _Found, findings: Findings) -> tuple[list[dict[str, Any]], list[Way], list[Way]]:
    """What recordings come to with each argument that hides keys, or changes scores; and the calls that hide some.

    The last are calls with one of each sort of it that ran.
    """
    told: list[dict[str, Any]] = []
    hiding: list[Way] = []
    ran: dict[tuple[str, str], Way] = {}
    single: dict[str, Way] = {}
    for argument in caller.face.arguments:
        answers: list[tuple[Way, Answer]] = []
        for guess in (found.guess, _square(found.guess)):
            ways = [replace(way, extra={**way.extra, "record": _intended(caller.face, argument, way)})
                    for way in _ways(caller.face, argument, guess)]  # fmt: skip
            # What is broadcast to something else is no mask.
            answers = answers or [
                (way, one) for way, one in zip(ways, caller.ask(ways), strict=True)
                if one.judged.get("cores") and one.judged["shapes"] == found.judged["shapes"]
            ]  # fmt: skip
        for way, _ in answers:
            kind = dict(way.guess.kinds).get((argument.name,), "")
            ran.setdefault((argument.name, kind.partition("(")[0]), replace(way, extra={}))
        if argument.role in ("mask", "padding"):
            _overlooked(caller, argument, found, answers, findings)
        if not answers and argument.default is None and not argument.required:
            told += _attended(caller, argument, found)
        plainly = _names(found.judged)
        # What nothing more is wrong with was meant so; of what is wrong, only what is documented, or nothing else.
        right = [(way, one) for way, one in answers
                 if not _names(one.judged) - plainly and _spoke(one.judged)]  # fmt: skip
        if right:
            single[argument.name] = right[0][0]
        for way, answer in (right or answers)[:2]:
            judged = answer.judged
            told.append(judged)
            if right and any(judged["facts"].get(fact) for fact in ("polarity", "hidden")):
                hides = judged["facts"].get("polarity") == "drop"
                kind = dict(way.guess.kinds).get((argument.name,), "")
                hiding.append(replace(way, extra={}, hides=-np.inf if kind in _ADDED else hides))
            _meant(caller.face, argument, judged, findings)
    for path, kind in found.guess.kinds:
        if len(path) > 1 and kind == "lengths":
            _meant(caller.face, Argument(".".join(path), "lengths", True, None, "", "either"), found.judged, findings)
    # Each may be right by itself, and wrong beside another.
    both = [_both(one, single[one], two, single[two]) for one, two in combinations(single, 2)]
    told += [one.judged for one in caller.ask(both[:_PAIRS])
             if one.judged.get("cores") and one.judged["shapes"] == found.judged["shapes"]]  # fmt: skip
    return told, hiding, list(ran.values())


def _attended(caller: Caller, argument: Argument, found: _Found) -> list[dict[str, Any]]:
    """What a recording comes to with arrays that may be left out, where these are attended to: a memory, or a past."""
    name, guess = argument.name, found.guess
    first = next((kind for _, kind in guess.kinds if calls.is_floats(kind)), "")
    if (name,) in dict(guess.kinds) or "T" not in first or "S" in first:
        return []
    both = guess.given((name,), "2 of them")
    for place in ("0", "1"):
        both = both.given((name, place), "BHSD")
    guesses = (guess.given((name,), first.replace("T", "S")), guess.given((name,), first), both)
    ways = [Way(guess, extra={"record": caller.face.intents}) for guess in guesses]
    for way, answer in zip(ways, caller.ask(ways), strict=True):
        judged = answer.judged
        if judged.get("cores") and judged["shapes"] == found.judged["shapes"]:
            attended = {list(caller.arrays(way.guess))[n].partition(".")[0] for n in judged["facts"]["attended"]}
            if name in attended:
                return [judged]
    return []


def _overlooked(
    caller: Caller, argument: Argument, found: _Found, answers: Sequence[tuple[Way, Answer]], findings: Findings
) -> None:
    """A mask that no operation reads, and that changes nothing."""
    if len(answers) < 3 or any(argument.name in caller.face.overrides for _ in answers):
        return
    plain = caller.ask([Way(found.guess)])[0]
    for way, answer in answers:
        number = list(caller.arrays(way.guess)).index(argument.name)
        if number not in answer.judged["facts"].get("unread", ()) or differ(plain, answer):
            return
    findings.add("not_inplace", message=f"Nothing reads the argument {argument.name}, so it hides nothing.")


def _names(judged: dict[str, Any]) -> set[str]:
    return {fault["mistake"] for fault in judged.get("faults", ())}


def _both(one: str, first: Way, two: str, second: Way) -> Way:
    """Two calls in one, each of which has something for one argument more."""
    guess = first.guess
    if second.guess.kinds != guess.kinds and (two,) in dict(second.guess.kinds):
        guess = guess.given((two,), dict(second.guess.kinds)[two,]).alone
    intended = {**first.extra["record"], **{k: v for k, v in second.extra["record"].items() if v}}
    return Way(guess, values={**first.values, **second.values}, extra={"record": intended})


def _spoke(judged: dict[str, Any]) -> bool:
    return bool({"polarity", "hidden", "capped"} & set(judged["facts"]))


def _ways(face: Interface, argument: Argument, guess: Guess) -> list[Way]:
    """Calls in which an argument is what it may be, beside what is given already."""
    name, role, kinds = argument.name, argument.role, dict(guess.kinds)
    if role in _NUMBERS:
        return [Way(guess, values={name: _NUMBERS[role]})] if (name,) not in kinds else []
    if isinstance(argument.default, bool):
        return [Way(guess, values={name: not argument.default})]
    taken = kinds.get((name,))
    if taken is None and (argument.required or argument.default is not None or role not in (*_HIDE, None)):
        return []
    if taken is not None and not calls.is_mask(taken) and taken != "lengths":
        return []
    declared = face.declared_mask(role) if role in _HIDE else None
    wanted: tuple[str, ...] = (*_MASKS, *_ADDED)
    if role == "lengths":
        wanted = ("lengths",)
    elif declared == "additive":
        wanted = _ADDED
    elif declared is not None or face.boolean_mask:
        wanted = _MASKS
    # What is no sequence may have rows that are; and so are those of its mask.
    first = next((kind for _, kind in guess.kinds if calls.is_floats(kind)), "")
    if wanted is not _ADDED and len(first) == 3 and "T" not in first:
        wanted += (f"mask ({first[0]}, {first[1]})",)
    ways = [Way(guess.given((name,), kind).alone) for kind in wanted]
    if taken is not None and role in _HIDE and "T" in calls.axes_of(taken) and "S" not in calls.axes_of(taken):
        # It may be meant for keys that are as many.
        ways.append(Way(_square(guess)))
    return ways


def _intended(face: Interface, argument: Argument, way: Way) -> dict[str, Any]:
    causal = argument.role == "causal" and way.values.get(argument.name) is True
    return face.intents | ({"causal": True} if causal else {})


def _meant(face: Interface, argument: Argument, judged: dict[str, Any], findings: Findings) -> None:
    """What was seen beside what is said of the argument."""
    facts, name, role = judged["facts"], argument.name, argument.role
    polarity = facts.get("polarity")
    if role in _HIDE and polarity in ("keep", "drop"):
        declared = "keep" if role == "lengths" else face.declared_mask(role)
        line = next((e["line"] for e in judged["ledger"] if e["step"].endswith("mask") and e["line"]), None)
        findings.convention[name] = f"True = may {'' if polarity == 'keep' else 'not '}attend"
        if declared in ("keep", "drop") and polarity != declared:
            findings.add("mask_inverted", line=line)
        elif declared is None and role == "mask" and polarity == "drop":
            findings.add(
                "mask_inverted", kind="convention", certain=False, line=line,
                message=f"In {name}, True hides a key, as in nn.MultiheadAttention; in scaled_dot_product_attention "
                "True keeps it. Say so in its documentation.",
            )  # fmt: skip
    if role == "cap" and not facts.get("capped"):
        findings.add("softcap_missing")


def example(session: Session | Here, face: Interface, given: Sequence[str]) -> dict[str, Any]:
    """Make what somebody gave, and call and record it as they said; what the call came to."""
    made, _ = session.ask({"op": "example", "make": given[0], "call": given[1]})
    if "error" in made:
        raise CallError(f"the example cannot be made: {made['error']['type']}: {made['error']['message']}")
    one = {"args": [], "kwargs": {}, "example": True, "backend": face.description["backend"], "still": True}
    one |= {
        "dtype": "float32",
        "record": face.intents,
        "method": face.description["method"] if made["method"] else None,
    }
    reply, _ = session.ask({"op": "call", "handle": made["given"], "calls": [one]})
    return reply["replies"][0] if "replies" in reply else reply
