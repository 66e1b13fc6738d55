"""The call that was found, with other arguments: what mends it, and what may be left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.calls.search import Search
from overt.check.findings import Findings
from overt.check.text import shapes
from overt.check.text.interface import Interface
from overt.check.text.roles import Argument, constructor_role
from overt.check.text.shapes import Path
from overt.check.text.syntax import used
from overt.check.varied import beside
from overt.check.varied.asking import Answer, Caller, Way, differ
from overt.check.varied.choices import without

# Pairs of arguments that are given together.
_PAIRS = 10
_WIDTHS = ("width of all", "number of heads", "width of a head", "length", "number of key heads", "another width")
_FACTORS = ("scale", "1.0", "0.0", "root of a width")
_ADDED = tuple(kind for kind in calls.MASKS if kind.startswith("added"))
_MASKS = tuple(kind for kind in calls.MASKS if kind not in _ADDED)
# What a bias or a gate is, given as a mask.
_GIVEN = {"mask_bool_as_float", "mask_times_scores", "mask_after_softmax", "unknown"}
# What a mask of another sort comes to.
SORTS = {"mask_bool_as_float", "mask_float_as_bool"}
# What an argument of these names hides, and numbers that show what one of those does.
_HIDE, _NUMBERS = ("mask", "padding", "lengths"), {"cap": 0.7, "window": 2}


class Found(NamedTuple):
    """A call that attends: how many steps of it could not be judged, and what it came to."""

    lost: int
    handle: int | None
    guess: Guess
    judged: dict[str, Any]
    # the kinds of its arrays, in their order
    arrays: Sequence[str] = ()
    # whether one query is given where those that are meant have a length of their own
    one: bool = False
    # whether the code takes shapes apart into as many axes as were given, more of one than of another
    taken: bool = False

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
        return (calls.mixed([*self.arrays[:1], *attended]) and not self.taken) or weights or self.one

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

    @property
    def weighs(self) -> bool:
        """Whether a softmax was met: products of three alone are many things."""
        return any(entry["step"].endswith("softmax") for entry in self.judged["ledger"])

    @property
    def grouped(self) -> bool:
        """Whether key heads were seen that several heads share."""
        return any(entry["step"].endswith("groups") for entry in self.judged["ledger"])

    def rank(self) -> tuple[bool, bool, bool, bool, int, bool, bool, int]:
        """The least is the best; weights that mix nothing are a matter of those that do not attend to anything else."""
        narrow, points = self.guess.dtype != "float64", not self.judged["facts"].get("mixes", True)
        unsaid = not self.guess.told
        return self.doubtful, points, not self.weighs, narrow, self.lost, not self.grouped, unsaid, self.faults


def kinds_of(face: Interface, guess: Guess) -> list[str]:
    """The kinds of the arrays of a call, in their order."""
    kinds = guess.by_name
    return [kinds[name].replace(calls.EACH_CALL, "S") for name in calls.specs(guess, face)[2]]


def names(judged: dict[str, Any]) -> set[str]:
    """The mistakes that a recording comes to."""
    return {fault["mistake"] for fault in judged.get("faults", ())}


def square(guess: Guess) -> Guess:
    """With as many keys as queries: a mask may be meant for these alone."""
    return guess.sized(S=guess.lengths.T)


def kinder(caller: Caller, found: Found, made: beside.Made) -> Found:
    """A call with another factor or another mask: what another one mends is no mistake of the candidate."""
    face = caller.face
    masks = _ADDED if face.declared_mask() == "additive" else () if face.boolean_mask else calls.MASKS
    masks = () if face.declared_mask() in ("keep", "drop") else masks
    names = {a.name: Search(caller.session, face, lambda guesses: []).told(a) for a in face.arguments}

    def hiding(kind: str) -> tuple[str, ...]:
        # What is documented as 0 and 1 is neither added nor of another shape.
        return () if found.guess.told and kind[:7] == "0 and 1" else masks if calls.is_mask(kind) else ()

    def numbers(path: Path) -> tuple[str, ...]:
        if constructor_role(path[-1]) == "window":
            # In a window of nothing there is nothing wrong.
            return ()
        # One head would mend what is wrong with several.
        return _FACTORS if names.get(path[0]) else (*_FACTORS, "length", "side", "width of a head", "number of heads")

    others = [
        found.guess.given(path, other)
        for path, kind in found.guess.kinds
        # What the module makes is made of widths.
        if not (len(path) > 1 and kind in _WIDTHS and dict(found.guess.kinds)[path[:1]][:3] == "by ")
        for other in (numbers(path) if kind in calls.VALUES else hiding(kind))
        if other != kind
        and path[0] not in face.overrides
        and (other not in calls.VALUES or face.allows(path, calls.VALUES[other](found.guess.lengths)))
    ]
    if not found.faults:
        return found
    told = [(found.handle, guess, judged)
            for guess, judged in zip(others, caller.recorded(*others), strict=True)]  # fmt: skip
    built = made.guesses.get(-1 if found.handle is None else found.handle)
    if built is not None and any(fault["step"] == "scale" for fault in found.judged["faults"]):
        # A factor that the constructor was given, or a width that nobody says it is.
        given = [(path, kind) for path, kind in built.kinds
                 if kind in _FACTORS or (kind in _WIDTHS and constructor_role(str(path[-1])) is None)]  # fmt: skip
        for path, other in ((path, other) for path, kind in given for other in ("width of a head", *_FACTORS)
                            if other != kind):  # fmt: skip
            reply = made.build(built.given(path, other))
            if "error" not in reply:
                (judged,) = replace(caller, handle=reply["handle"]).recorded(found.guess)
                told.append((reply["handle"], found.guess, judged))
    for guess in _fitting(caller, found, made):
        (judged,) = caller.recorded(guess)
        told.append((found.handle, guess, judged | {"shapes": found.judged["shapes"]}))
    best = found
    # What is said to be added is.
    wanted = face.declared_mask() == "additive"
    for handle, guess, judged in told:
        added = wanted and "added" in str(guess) and "added" not in str(best.guess)
        fewer = added or len(judged.get("faults", ())) < best.faults
        # Where every query sees itself alone there is nothing to be wrong, nor where several keys are mixed no more.
        facts, kept = judged.get("facts", {}), {"mixes", "weighs several"}
        fewer = fewer and facts.get("reach") != 0
        fewer = fewer and all(facts.get(fact) or not best.judged["facts"].get(fact) for fact in kept)
        # What is left untried is not mended; but a factor that is given mends a scale.
        hides = [[kind for _, kind in one.kinds if calls.is_mask(kind)] for one in (guess, best.guess)]
        fewer = fewer and _untold(best.judged, judged) <= ({"scale"} if hides[0] == hides[1] else set())
        if judged.get("cores") and judged["shapes"] == found.judged["shapes"] and fewer:
            best = Found(found.lost, handle, guess, judged, kinds_of(face, guess), found.one)
    return best


def _untold(before: dict[str, Any], judged: dict[str, Any]) -> set[str]:
    """The steps that were wrong before and are only not tried now, as where all keys are hidden."""
    steps = {fault["step"] for fault in before.get("faults", ())} - {f["step"] for f in judged.get("faults", ())}
    ledger = judged.get("ledger", ())
    return {step for step in steps if {"not tried"} == {e["outcome"] for e in ledger if e["step"].endswith(step)}}


def _fitting(caller: Caller, found: Found, made: beside.Made) -> list[Guess]:
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


def optional(caller: Caller, found: Found, findings: Findings) -> tuple[list[dict[str, Any]], list[Way], list[Way]]:
    """What recordings come to with each argument that hides keys, or changes scores; and the calls that hide some.

    The last are calls with one of each sort of it that ran.
    """
    told: list[dict[str, Any]] = []
    hiding: list[Way] = []
    ran: dict[tuple[str, str], Way] = {}
    single: dict[str, Way] = {}
    for argument in caller.face.arguments:
        answers: list[tuple[Way, Answer]] = []
        before = len(told)
        for guess in (found.guess, square(found.guess)):
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
        plainly = names(found.judged)
        # What nothing more is wrong with was meant so; of what is wrong, only what is documented, or nothing else.
        right = [(way, one) for way, one in answers
                 if not names(one.judged) - plainly and _spoke(one.judged)]  # fmt: skip
        flag = isinstance(argument.default, bool)
        bare = argument.role is None and not caller.face.told_booleans(argument.name)
        if bare and not right:
            # What is added to scores or weights, or multiplied with them, is a bias where nothing calls it a mask.
            given = {True: {*_GIVEN, "mask_sign_inf"}, False: {"unknown"} if flag else _GIVEN}
            answers = [(way, one) for way, one in answers
                       if not names(one.judged) & given["added" in str(way.guess)] or _counts(way, one)]  # fmt: skip
        if right:
            single[argument.name] = right[0][0]
        # Where something else is wrong whatever it is, what is read as another sort of mask was not meant for that.
        fitting = [(way, one) for way, one in answers if not names(one.judged) & SORTS]
        answers = fitting if bare and not flag else fitting or answers
        unread = bare and not used(caller.face.whole, argument.name, flag=flag)
        free = argument.default is None and not (argument.required or answers or told[before:])
        if unread or (bare and free):
            answers = []
            findings.untried(argument)
        for way, answer in (right or answers)[:2]:
            judged = answer.judged
            if argument.role == "cap" and not judged["facts"].get("capped"):
                judged = _switched(caller, way) or judged
            told.append(judged)
            if right and any(judged["facts"].get(fact) for fact in ("polarity", "hidden")):
                polarity = judged["facts"].get("polarity")
                kind = dict(way.guess.kinds).get((argument.name,), "")
                # Beside lengths it may not be seen which of its values hides.
                values = (-np.inf,) if kind in _ADDED else (polarity == "drop",) if polarity else (False, True)
                hiding += [replace(way, extra={}, hides=value) for value in values]
            _meant(caller.face, argument, judged, findings)
    for path, kind in found.guess.kinds:
        if len(path) > 1 and kind == "lengths":
            _meant(caller.face, Argument(".".join(path), "lengths", True, None, "", "either"), found.judged, findings)
    # Each may be right by itself, and wrong beside another.
    both = [_both(one, single[one], two, single[two]) for one, two in combinations(single, 2)]
    told += [one.judged for one in caller.ask(both[:_PAIRS])
             if one.judged.get("cores") and one.judged["shapes"] == found.judged["shapes"]]  # fmt: skip
    pairs = [_both(one, first, two, second) for ((one, _), first), ((two, _), second) in combinations(ran.items(), 2)
             if one != two]  # fmt: skip
    return told, hiding, [*ran.values(), *pairs[:_PAIRS]]


def _switched(caller: Caller, way: Way) -> dict[str, Any] | None:
    """What a recording comes to once all that is off is on, where scores are capped then."""
    off = {a.name: True for a in caller.face.arguments if a.default is False and a.name not in way.values}
    answers = caller.ask([replace(way, values={**way.values, **off})]) if off else []
    return next((one.judged for one in answers if one.judged.get("facts", {}).get("capped")), None)


def _attended(caller: Caller, argument: Argument, found: Found) -> list[dict[str, Any]]:
    """What a recording comes to with arrays that may be left out, where these are attended to: a memory, or a past."""
    name, guess = argument.name, found.guess
    first = guess.first
    if (name,) in dict(guess.kinds) or "T" not in first or "S" in first:
        return []
    both = guess.given((name,), "2 of them")
    for place in ("0", "1"):
        both = both.given((name, place), "BHSD")
    guesses = (guess.given((name,), first.replace("T", "S")), guess.given((name,), first), both)
    for guess, judged in zip(guesses, caller.recorded(*guesses), strict=True):
        if judged.get("cores") and judged["shapes"] == found.judged["shapes"]:
            given, seen = list(caller.arrays(guess)), judged["facts"]["attended"]
            attended = {given[n].partition(".")[0] for n in seen if n < len(given)}
            if name in attended:
                # What looks at itself in order may look at all of something else.
                whole = attended == {name} and "causal" in found.judged["facts"]
                return [without(judged, "causal_missing") if whole else judged]
    return []


def _overlooked(
    caller: Caller, argument: Argument, found: Found, answers: Sequence[tuple[Way, Answer]], findings: Findings
) -> None:
    """A mask that no operation reads, and that changes nothing."""
    if len(answers) < 3:
        return
    if any(kind in ("bounds", "bounds in T", "lengths") for _, kind in found.guess.kinds):
        # Something else tells what may be seen.
        return
    if used(caller.face.whole, argument.name) or caller.face.idle(argument.name):
        # What reads it did not run, or it is said that nothing does.
        return
    plain = caller.ask([Way(found.guess)])[0]
    for way, answer in answers:
        number = list(caller.arrays(way.guess)).index(argument.name)
        if number not in answer.judged["facts"].get("unread", ()) or differ(plain, answer):
            return
    told = caller.face.description
    named = (
        n
        for n, text in enumerate(told["source"].splitlines(), told["line"])
        if re.search(rf"\b{argument.name}\b", text)
    )
    findings.add(
        "not_inplace", line=next(named, None),
        message=f"Nothing reads the argument {argument.name}, so it hides nothing.",
        mend=f"Hide by {argument.name} what it hides, or do without the argument.",
    )  # fmt: skip


def _both(one: str, first: Way, two: str, second: Way) -> Way:
    """Two calls in one, each of which has something for one argument more."""
    guess = first.guess
    if second.guess.kinds != guess.kinds and (two,) in dict(second.guess.kinds):
        guess = guess.given((two,), dict(second.guess.kinds)[two,]).alone
    extra = {}
    if "record" in first.extra:
        extra["record"] = {**first.extra["record"], **{k: v for k, v in second.extra["record"].items() if v}}
    return Way(guess, values={**first.values, **second.values}, extra=extra)


def _counts(way: Way, answer: Answer) -> bool:
    """Whether what hides keys was given as lengths, and hides those behind them."""
    return "lengths" in dict(way.guess.kinds).values() and bool(answer.judged["facts"].get("counted"))


def _spoke(judged: dict[str, Any]) -> bool:
    return bool({"polarity", "hidden", "capped"} & set(judged["facts"]))


def _ways(face: Interface, argument: Argument, guess: Guess) -> list[Way]:
    """Calls in which an argument is what it may be, beside what is given already."""
    name, role, kinds = argument.name, argument.role, dict(guess.kinds)
    if role in _NUMBERS:
        return [Way(guess, values={name: _NUMBERS[role]})] if (name,) not in kinds else []
    if role in ("training", "deterministic") or (name,) in face.read.divisors:
        # What is dropped by chance is no mask, and neither is what others are divided by.
        return []
    if isinstance(argument.default, bool):
        return [Way(guess, values={name: not argument.default})]
    taken, spared = kinds.get((name,)), kinds.get((name,)) == "None"
    taken = None if spared else taken
    if taken is None and (
        (argument.required and not spared) or argument.default is not None or role not in (*_HIDE, None)
    ):
        return []
    if taken is not None and not calls.is_mask(taken) and taken != "lengths":
        return []
    declared = face.declared_mask(role) if role in _HIDE else None
    wanted: tuple[str, ...] = (*_MASKS, *_ADDED)
    if role == "lengths":
        wanted = ("lengths",)
    elif declared == "additive":
        wanted = _ADDED
    elif (
        declared is not None or (face.boolean_mask and role is not None) or (role is None and face.told_booleans(name))
    ):
        wanted = _MASKS
    # What is no sequence may have rows that are; and so are those of its mask.
    first, sort = guess.first, "added" if declared == "additive" else "mask"
    if len(first) > 2 and "T" not in first:
        wanted += (f"{sort} ({', '.join(axis for axis in first if axis not in 'WU')})",)
    arrays = [kind for _, kind in guess.kinds if calls.is_floats(kind)]
    # What weights are multiplied with has rows or columns that may be hidden; they have none.
    last = next((kind for kind in arrays[::-1] if len(kind) == 2 and {*kind} & {"S", "T"}), "".join(arrays[-1:]))
    alone = len(first) < 3 and len(last) == 2 and "B" not in last
    if alone and (role is not None or face.told_booleans(name)):
        # Keys that have no samples; what nothing calls a mask may as well be a number for each of them.
        wanted += (f"{sort} ({last[calls.along(last) or 0]})",)
    if role is None and taken is None:
        # Whatever it is called, it may say how many keys there are.
        wanted += ("lengths",)
    axes = _axes_said(face, argument, guess) if wanted[:1] != ("lengths",) else ()
    if axes and calls.with_axes(wanted[0], axes) not in wanted:
        wanted += (calls.with_axes(f"{sort} ()", axes),)
    ways = [Way(guess.given((name,), kind).alone) for kind in wanted]
    if taken is not None and role in _HIDE and "T" in calls.axes_of(taken) and "S" not in calls.axes_of(taken):
        # It may be meant for keys that are as many.
        ways.append(Way(square(guess)))
    return ways


def _axes_said(face: Interface, argument: Argument, guess: Guess) -> list[str]:
    """The axes that are documented of an argument, by the letters that their words have in a call."""
    found = shapes.shapes(face.shaped, [a.name for a in face.arguments])
    words = {word: letter for path, kind in guess.kinds if path in found
             for word, letter in zip(found[path].axes, calls.axes_of(kind), strict=False)}  # fmt: skip
    said = found[argument.name,].axes if (argument.name,) in found else ()
    axes = [word if word in calls.PLAIN else words.get(word, "") for word in said]
    # Of two axes that are as long as each other, the last one is that of keys.
    return [*axes[:-1], "S" if axes[-1] in axes[:-1] else axes[-1]] if all(axes) and axes else []


def _intended(face: Interface, argument: Argument, way: Way) -> dict[str, Any]:
    causal = argument.role == "causal" and way.values.get(argument.name) is True
    return face.intents | ({"causal": True} if causal else {})


def _meant(face: Interface, argument: Argument, judged: dict[str, Any], findings: Findings) -> None:
    """What was seen beside what is said of the argument."""
    facts, name, role = judged["facts"], argument.name, argument.role

    def at(step: str) -> int | None:
        return next((e["line"] for e in judged["ledger"] if e["step"].endswith(step) and e["line"]), None)

    polarity = facts.get("polarity")
    if role in _HIDE and polarity in ("keep", "drop"):
        declared = "keep" if role == "lengths" else face.declared_mask(role)
        # Of several attentions, not all are given it.
        line = facts.get("read at") or at("mask")
        findings.convention[name] = f"True = may {'' if polarity == 'keep' else 'not '}attend"
        if declared in ("keep", "drop") and polarity != declared:
            findings.add("mask_inverted", line=line)
        elif declared is None and role == "mask" and polarity == "drop":
            findings.add(
                "mask_inverted", kind="convention", certain=False, line=line,
                message=f"In {name}, True hides a key, as in nn.MultiheadAttention; in scaled_dot_product_attention "
                "True keeps it. Say so in its documentation.",
            )  # fmt: skip
    if role == "lengths" and "past the length" in facts:
        says = f"Of what {name} says how long it is, {facts['past the length']}."
        findings.add("unknown", message=says, line=at("mask"))
    if role == "cap" and not facts.get("capped"):
        findings.add("softcap_missing", line=at("scale") or at("scores"))
