"""What more calls tell, once one is found that works: the same once more, in training, in half, with other inputs.

Nothing here knows what the candidate looks like: a call is arguments and what they were taken for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.mistakes import MISTAKES
from overt.check.process.session import Here, Session
from overt.check.text.interface import Interface
from overt.check.text.lives import placed
from overt.check.text.syntax import named_parts, written

# Two outputs are different, and half precision is off, by more than this share of the largest number.
_SAME, _HALF = 1e-6, 4e-3
# Queries and keys by which is seen how far a query sees.
_POSITIONS = 7
# What is said of an argument that a call writes to.
_WRITTEN = "(updated|(over)?written|mutated|modified|changed|filled|extended|advanced)"


@dataclass(frozen=True)
class Way:
    """A call: what each argument is taken for, arrays and values in its place or beside, and what else is asked."""

    guess: Guess
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    # what stands for a hidden key in its mask
    hides: float | bool = False
    # whether what the module makes for it is one thing in all calls of a request
    keeps: bool = False
    # arguments that are what the call before it in the request returned, or that item of it
    back: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a call came to."""

    reply: dict[str, Any]
    outputs: list[np.ndarray]
    # of the arrays that were given, where they were asked for
    gradients: Mapping[str, np.ndarray | None] = field(default_factory=dict)
    # how often something was printed in the request
    printed: int = 0

    @property
    def failed(self) -> bool:
        return "error" in self.reply

    def part(self, start: int) -> Answer:
        """The same, and of what was returned the samples from one on."""
        return replace(self, outputs=[x[start:] if x.ndim else x for x in self.outputs])

    @property
    def judged(self) -> dict[str, Any]:
        return self.reply.get("judged", {}) | {"shapes": [one["shape"] for one in self.reply.get("outputs", ())]}


@dataclass(frozen=True)
class Caller:
    """Calls a function, or a method of an instance."""

    session: Session | Here
    face: Interface
    handle: int | None

    def ask(self, ways: Sequence[Way], *, same: bool = False) -> list[Answer]:
        """What the calls came to, a few in one request; same: arrays of one name are one array in all of them."""
        found: list[Answer] = []
        for start in range(0, len(ways), calls.BATCH):
            specs: list[dict[str, Any]] = []
            arrays: dict[str, np.ndarray] = {}
            for number, way in enumerate(ways[start : start + calls.BATCH]):
                prefix = "" if same else f"{number}_"
                given, mine = calls.named(way.guess, self.face, prefix)
                if way.keeps:
                    given = calls.keeping(given)
                given = calls.valued(given, way.values, self.face.configs)
                given |= {n: {"result": number - 1, "item": item} for n, item in way.back.items() if number}
                args, kwargs = calls.placed(given, self.face)
                for name, array in way.arrays.items():
                    if prefix + name in mine:
                        key = f"{number}+{name}"
                        args, kwargs = _renamed(args, prefix + name, key), _renamed(kwargs, prefix + name, key)
                        mine[key] = array
                        del mine[prefix + name]
                    elif any(name == a.name and name not in given for a in self.face.arguments):
                        kwargs[name] = {"array": f"{number}+{name}"}
                        mine[f"{number}+{name}"] = array
                # What is read in the place of an argument stands for it.
                patch = {n: {"array": prefix + a} for n, a in self.face.misread.items() if prefix + a in mine}
                fresh = not specs or ("train" not in way.extra and not same)
                told = {"globals": patch, "dtype": way.guess.dtype, "fresh": fresh, **way.extra}
                specs.append(self.spec(args, kwargs, **told))
                arrays |= mine
            request = {"op": "call", "handle": self.handle, "calls": specs} | ({"same": True} if same else {})
            reply, out = self.session.ask(request, arrays)
            replies = reply.get("replies", [reply] * len(specs))
            for told in replies:
                slopes = {re.split(r"[_+]", name, maxsplit=1)[-1]: None if key is None else out[key]
                          for name, key in (told.get("gradients") or {}).items()}  # fmt: skip
                outputs = [out[o["key"]] for o in told.get("outputs", ())]
                found.append(Answer(told, outputs, slopes, reply.get("printed", 0)))
        return found

    def replies(self, guesses: Sequence[Guess]) -> list[dict[str, Any]]:
        """What calls come to that are looked for."""
        return [answer.reply for answer in self.ask([Way(guess, extra={"search": True}) for guess in guesses])]

    def spec(self, args: list[Any], kwargs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """One call of a request."""
        one = {"args": args, "kwargs": kwargs, "backend": self.face.description["backend"], "still": True}
        method = {} if self.handle is None else {"method": self.face.description["method"]}
        return {**one, **method, "train": False, **more}

    def recorded(self, *guesses: Guess) -> list[dict[str, Any]]:
        """What the recording of each call comes to; empty where it fails."""
        return [answer.judged for answer in self.ask([Way(g, extra={"record": self.face.intents}) for g in guesses])]

    def arrays(self, guess: Guess) -> dict[str, np.ndarray]:
        """The arrays of a call by the names of their arguments."""
        return calls.specs(guess, self.face)[2]


def _renamed(specs: Any, old: str, new: str) -> Any:
    """Specs with another array in place of one."""
    if isinstance(specs, dict) and specs.get("array") == old:
        return {**specs, "array": new}
    if isinstance(specs, dict):
        return {name: _renamed(spec, old, new) for name, spec in specs.items()}
    return [_renamed(spec, old, new) for spec in specs] if isinstance(specs, list) else specs


def differ(one: Answer, two: Answer, tolerance: float = _SAME) -> bool:
    """Whether two calls that work gave other numbers."""
    if one.failed or two.failed or not one.outputs or not two.outputs:
        return False
    a, b = (np.asarray(answer.outputs[0], np.float64) for answer in (one, two))
    if a.shape != b.shape:
        return True
    top = max(float(np.nanmax(np.abs(a), initial=0)), 1e-12)
    with np.errstate(invalid="ignore"):
        off = np.where(a == b, 0, np.abs(a - b))
    return bool((np.isnan(a) != np.isnan(b)).any() or np.nanmax(off, initial=0) > tolerance * top)


def _chosen(face: Interface, one: Answer, two: Answer) -> bool:
    """Whether words or places are drawn, which is no dropout: whole numbers differ, or the code says so."""
    both = zip(one.outputs, two.outputs, strict=False)
    draws = re.search(r"\b(randint|randperm|permutation|multinomial|categorical|shuffle)\(", face.whole)
    if draws and not re.search(r"drop|bernoulli", face.whole, re.IGNORECASE):
        return True
    return any(a.dtype.kind in "iu" and a.shape == b.shape and not np.array_equal(a, b) for a, b in both)


def probe(
    caller: Caller,
    guess: Guess,
    masks: Sequence[Way],
    facts: Mapping[str, Any],
    findings: Findings,
    others: Sequence[Way] = (),
    raw: Caller | None = None,
) -> None:
    """Everything that more calls tell of the one that was found.

    masks: those of its ways that hide keys; others: those with arguments that may be left out; raw: calls an instance
    that was never put out of training.
    """
    plain = Way(guess)
    ways = [plain, *masks[:3]]
    again = {"still": False}
    first, second = caller.ask([replace(plain, extra=again | {"seed": n}) for n in (0, 1)])
    if facts.get("unwritten"):
        findings.entered("modes, precision, what is kept", "some of the output is never written", tried=False)
        return
    if _chosen(caller.face, first, second):
        findings.entered("modes, precision, what is kept", "what it gives is drawn by chance", tried=False)
        return
    if differ(first, second):
        # Copies of a layer whose first call draws its weights differ, and calls of one of them do not.
        once, twice = caller.ask([replace(plain, extra=again | {"seed": n, "train": False}) for n in (0, 1)])
        # So do calls that make what is called.
        if not differ(once, twice) or caller.face.description["composed"]:
            findings.entered("modes, precision, what is kept", "each copy of it draws weights of its own", tried=False)
            return
        line = _dropping(caller, replace(plain, extra=again | {"train": False}))
        if line is None and not re.search(r"drop_?(out|path)|bernoulli", caller.face.whole, re.IGNORECASE):
            findings.entered("modes, precision, what is kept", "what it gives is drawn by chance", tried=False)
            return
        findings.add("dropout_eval", line=line)
        if _dropped_too([(caller.ask([plain])[0], first)]):
            findings.add("weights_after_dropout", line=line)
        masked = findings.found.get("mask_after_softmax")
        if masked is not None and (masked.where is None or line in (None, masked.where["line"])):
            # What is dropped by chance is hidden by no mask.
            del findings.found["mask_after_softmax"]
        return
    # A mask that has all axes may be written to as it is.
    whole = [Way(guess.given(path, calls.with_axes(kind, ("B", "H", "T", "S"))))
             for path, kind in guess.kinds if calls.is_mask(kind) and "1" in calls.axes_of(kind)]  # fmt: skip
    mine = [replace(way, extra={**way.extra, "own": True}) for way in ways]
    # What is written into a mask that says the same already is not seen.
    flags = {name: (x == 0).astype(x.dtype) for name, x in caller.arrays(guess).items()
             if calls.is_mask(guess.by_name.get(name, "")) and np.isin(x, (0, 1)).all()}  # fmt: skip
    _changed(caller.ask([*mine, *others, *whole, *([Way(guess, flags)] if flags else [])]), caller.face, findings)
    # What changes its inputs answers otherwise the second time, whatever it keeps.
    kept = None if "inplace" in findings.found else remembers(caller, guess) or _named(caller, guess)
    if kept is not None:
        findings.add(kept)
        return
    _trained(raw or caller, plain, findings)
    _half(caller, ways, findings)
    _unseen(caller, plain, facts, findings)
    for way in masks[:3]:
        _hidden(caller, way, facts, findings)


def _changed(answers: Sequence[Answer], face: Interface, findings: Findings) -> None:
    every = {key for answer in answers for key in answer.reply.get("changed", ())}
    if rates := {key for key in every if key[:9] == "own rate "}:
        findings.add("dropout_stuck_off")
        every -= rates
    changed = {key.split("_", 1)[-1].split("+")[-1] for key in every if key[:4] != "own "}
    # What an instance holds, and no line after its constructor writes to: it was changed by another name.
    changed |= {key[4:] for key in every if key[:4] == "own "} - written(findings.description["source"])
    changed -= {name for name in changed if _in_place(face, name, changed)}
    if changed:
        names = ", ".join(sorted(changed))
        name = re.escape(min(changed))
        look = rf"\b{name}\b[^=\n]*[-+*/&^%@\]]\s*=(?!=)|\bout={name}\b|{MISTAKES['inplace'].look}"
        says = f"It changes what it was given ({names}), so a second call sees other numbers."
        findings.add("inplace", message=says, look=look)


def _in_place(face: Interface, name: str, changed: set[str]) -> bool:
    """Whether an argument is meant to be changed, or that of which it is a part.

    Documentation says so, or the candidate sets other parts of it by their names, as what counts the tokens of a cache,
    or writes to it where it is told, as to the buffer of a cache.
    """
    owner, _, part = name.partition(".")
    source = face.description["source"] + face.description.get("reached", "")
    others = named_parts(source).get(owner, set()) - {one.partition(".")[2] for one in changed}
    places = {a.name for a in face.arguments if a.role in ("offset", "positions")}
    if (part and others) or owner in placed(source, places):
        return True
    own = "|".join(re.escape(one.lower()) for one in {owner, name})
    done = (
        rf"\bin[- ]?place\b|\b({own}|it|they)\b(\([^()]*\)|[^.;,()])*\b(is|are|gets?) (\w+ly |then |also )?{_WRITTEN}\b"
    )
    said = re.split(r"[.;]\s+(?!(?:it|they) )|\n\s*\n", face.prose)
    return any(re.search(rf"\b({own})\b", one) and re.search(done, one)
               and not re.search(r"\b(not|never|no)\b|n't\b", one) for one in said)  # fmt: skip


def remembers(caller: Caller, guess: Guess) -> str | None:
    """Of the same call with one array changed, and the first call again, with the same arrays: what is kept amiss."""
    drawn = np.random.default_rng(5)
    given = {name: x for name, x in caller.arrays(guess).items() if x.dtype.kind == "f"}
    for name, array in given.items() if len(given) > 1 else ():
        other = {name: drawn.normal(size=array.shape)}
        a, b, c = caller.ask([Way(guess), Way(guess, other), Way(guess)], same=True)
        # Where nothing was called before.
        (fresh,) = caller.ask([Way(guess, {n: x + 0.1 for n, x in given.items()})])
        if differ(a, c):
            # An instance may keep keys, and is meant to.
            return "state" if caller.handle is None else None
        # The same to the eye, and others to what remembers them.  A mask's whole numbers would be others.
        near = {n: x + 1e-9 for n, x in given.items() if (x != np.rint(x)).any()} | other
        if not (differ(a, b) or b.failed or fresh.failed) and differ(caller.ask([Way(guess, near)])[0], b):
            return None if _forgets(caller, [Way(guess), Way(guess, other)]) else "cache_key"
    return None


def _named(caller: Caller, guess: Guess) -> str | None:
    """What is kept amiss, where with a name that may be given it answers what was asked before."""
    given = {name: x for name, x in caller.arrays(guess).items() if x.dtype.kind == "f"}
    kinds, free = dict(guess.kinds), [a for a in caller.face.arguments if a.default is None and not a.required]
    free = [a for a in free if a.role is None and (a.name,) not in kinds]
    for a in free if len(given) > 1 else ():
        first, array = next(iter(given.items()))
        other = {first: np.random.default_rng(5).normal(size=array.shape)}
        named = guess.given((a.name,), "0")
        plain, without = caller.ask([Way(guess), Way(guess, other)])
        one, two = caller.ask([Way(named), Way(named, other)], same=True)
        # What is asked anew comes to what it would without the name.
        if differ(plain, without) and differ(two, without) and not (one.failed or differ(one, plain)):
            return "cache_key"
    return None


def _forgets(caller: Caller, ways: Sequence[Way]) -> bool:
    """Whether another method makes an instance forget what it keeps: until then it is meant to."""
    told = caller.face.description
    own = (told["method"] or "").split(" then ")
    others = [name for name in told.get("starts", ())[:3] if name not in own and caller.handle is not None]
    starts = [f"{name} then {told['method']}" for name in others]
    both = (caller.ask([replace(way, extra={"method": name}) for way in ways], same=True) for name in starts)
    return any(differ(one, two) for one, two in both)


def _trained(caller: Caller, plain: Way, findings: Findings) -> None:
    """In training, out of it and in it again, with two seeds each."""
    modes = [(True, 0), (True, 1), (False, 0), (True, 0), (True, 1), (False, 0), (False, 1)]
    named = {a.name: a.role for a in caller.face.arguments if a.role in ("drop", "training", "deterministic")}

    def values(mode: bool) -> dict[str, Any]:
        said = {"drop": 0.5, "training": mode, "deterministic": not mode}
        return {name: said[role] for name, role in named.items() if role}

    # What is given by its place is not given by name too.
    free = {(name,) for name in named} - {path for path, _ in plain.guess.kinds}
    ways = [replace(plain, values={n: x for n, x in values(mode).items() if (n,) in free},
                    extra={"still": False, "train": mode, "seed": seed}) for mode, seed in modes]  # fmt: skip
    one, two, still, three, four, again, other = caller.ask(ways)
    # What is asked for by the call itself is no matter of the mode.
    if "drop" not in named.values() and differ(again, other) and not differ(still, again):
        findings.add("dropout_eval", line=_dropping(caller, ways[2]))
    drops = differ(one, two)
    if drops:
        # What an instance keeps from call to call is no chance.
        first, second = caller.ask([replace(way, extra={**way.extra, "fresh": True}) for way in ways[:2]])
        drops = differ(first, second)
    if drops and not differ(three, four):
        findings.add("dropout_stuck_off")
    pairs = [(still, one)]
    if drops:
        # Weights may be given only where a flag asks for them.
        flags = [a for a in caller.face.arguments if isinstance(a.default, bool) and a.name not in named]
        for a in flags:
            asked = [replace(way, values={**way.values, a.name: not a.default}) for way in (ways[2], ways[0])]
            quiet, drawn = caller.ask(asked)
            pairs.append((quiet, drawn))
    if drops and _dropped_too(pairs):
        findings.add("weights_after_dropout", line=_dropping(caller, ways[0]))


def _dropped_too(pairs: Sequence[tuple[Answer, Answer]]) -> bool:
    """Whether weights sum to 1 along some axis where nothing is dropped, and not where something is."""
    return any(
        _sums_to_1(quiet) - _sums_to_1(x)
        for still, one in pairs
        for quiet, x in zip(still.outputs[1:], one.outputs[1:], strict=False)
    )


def _dropping(caller: Caller, way: Way) -> int | None:
    """The line that drops weights in a call, as a recording has it."""
    recorded = replace(way, extra={**way.extra, "record": caller.face.intents})
    faults = caller.ask([recorded])[0].judged.get("faults", ())
    return next((fault["line"] for fault in faults if fault["mistake"] == "dropout_eval"), None)


def _sums_to_1(array: np.ndarray) -> set[int]:
    """The axes along which an array sums to 1, be they those of the keys or not."""
    axes = [axis for axis, length in enumerate(array.shape) if length > 1 and array.ndim > 1]
    return {axis for axis in axes if np.allclose(array.sum(axis), 1, atol=1e-3)}


def _half(caller: Caller, ways: Sequence[Way], findings: Findings) -> None:
    """Half precision, where wider numbers are taken."""
    for way in ways:
        # What the module makes itself is as wide as it likes.
        made = any(kind[:3] == "by " for _, kind in way.guess.kinds)
        if made or way.guess.dtype not in ("float64", "float32"):
            return
        narrow = {n: x.astype(np.float16).astype(x.dtype) for n, x in caller.arrays(way.guess).items()
                  if x.dtype.kind == "f" and n not in way.arrays}  # fmt: skip
        way = replace(way, arrays={**narrow, **way.arrays})
        wide, half = caller.ask([way, replace(way, guess=replace(way.guess, dtype="float16"))])
        if wide.failed:
            return
        if any(kind.startswith(("mask", "added", "lengths")) for _, kind in way.guess.kinds):
            error = half.reply.get("error", {})
            message = error.get("message", "").lower()
            lost = bool(half.outputs and wide.outputs) and bool(
                (np.isnan(half.outputs[0]) & ~np.isnan(wide.outputs[0])).any()
            )
            if lost or (half.failed and ("overflow" in message or "half" in message)):
                findings.add("mask_fp16_overflow", line=error.get("line"), example={"input": "float16"})
        elif differ(wide, half, _HALF):
            findings.add("softmax_low_precision", kind="risk", example={"input": "float16"})


def _hidden(caller: Caller, way: Way, facts: Mapping[str, Any], findings: Findings) -> None:
    """A row that sees nothing, and NaN where nobody may look."""
    _behind_lengths(caller, way, facts, findings)
    for name, array in _masks(caller, way):
        empty, behind = array.copy(), array.copy()
        if array.ndim > 1 and array.shape[-2] > 1:
            empty[..., 1, :] = way.hides
        else:
            empty.reshape(-1, array.shape[-1])[0] = way.hides
        behind[..., 2] = way.hides
        recorded = {**way.extra, "record": caller.face.intents}
        plain, other = caller.ask([way, replace(way, arrays={**way.arrays, name: empty}, extra=recorded)])
        # Where two masks hide the same, their numbers meet.
        for fault in (f for f in other.judged.get("faults", ()) if f["mistake"] == "mask_finfo_sum"):
            findings.tell(fault)
        if other.outputs and not plain.failed and np.isnan(other.outputs[0]).sum() > np.isnan(plain.outputs[0]).sum():
            findings.add("full_row_nan")
        elif other.outputs and way.guess.dtype in ("float64", "float32"):
            # A fill that half precision has no number for is −∞ there.
            narrow = replace(way, guess=replace(way.guess, dtype="float16"), arrays={**way.arrays, name: empty})
            half = caller.ask([narrow])[0]
            if half.outputs and np.isnan(half.outputs[0]).any() and not np.isnan(other.outputs[0]).any():
                findings.add("mask_fp16_overflow", example={"input": "float16"})
        arrays = caller.arrays(way.guess)
        if (found := values_in(arrays, facts)) is not None and arrays[found[0]].shape[found[1]] > 2:
            poisoned = arrays[found[0]].copy()
            np.moveaxis(poisoned, found[1], 0)[2] = np.nan
            seen = caller.ask([replace(way, arrays={**way.arrays, name: behind, found[0]: poisoned})])[0]
            if seen.outputs and np.isnan(seen.outputs[0]).any():
                findings.add("nan_in_masked_value", line=facts.get("mixed at"))


def _unseen(caller: Caller, way: Way, facts: Mapping[str, Any], findings: Findings) -> None:
    """NaN in the values of keys that no query sees, whatever hides them."""
    given, unseen = caller.arrays(way.guess), facts.get("unseen")
    mine, axis = values_in(given, facts) or ("", 0)
    if not unseen or not mine or max(unseen) >= given[mine].shape[axis]:
        return
    other, poisoned = given[mine].copy(), given[mine].copy()
    np.moveaxis(other, axis, 0)[unseen] *= 2
    np.moveaxis(poisoned, axis, 0)[unseen] = np.nan
    plain, more, seen = caller.ask([way, *(replace(way, arrays={mine: x}) for x in (other, poisoned))])
    if more.outputs and not (plain.failed or differ(plain, more)) and differ(plain, seen):
        findings.add("nan_in_masked_value", line=facts.get("mixed at"))


def _behind_lengths(caller: Caller, way: Way, facts: Mapping[str, Any], findings: Findings) -> None:
    """NaN in the values beyond the length of a sample, and a sample of no length."""
    given = {**caller.arrays(way.guess), **way.arrays}
    mine, axis = values_in(given, facts) or ("", 0)
    for name, lengths in ((name, given[name]) for name, kind in way.guess.by_name.items() if kind[:7] == "lengths"):
        none = np.where(np.arange(len(lengths)) == 0, 0, lengths)
        (empty,) = caller.ask([replace(way, arrays={**way.arrays, name: none})])
        if empty.outputs and np.isnan(empty.outputs[0]).any():
            findings.add("full_row_nan")
        if axis == 0 or len(given[mine]) != len(lengths):
            continue
        poisoned = given[mine].copy()
        for row, n in zip(np.moveaxis(poisoned, axis, 1), lengths, strict=True):
            row[n:] = np.nan
        plain, seen = caller.ask([way, replace(way, arrays={**way.arrays, mine: poisoned})])
        if seen.outputs and plain.outputs and np.isnan(seen.outputs[0]).any() > np.isnan(plain.outputs[0]).any():
            findings.add("nan_in_masked_value", line=facts.get("mixed at"))


def values_in(given: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> tuple[str, int] | None:
    """The array of the values, the last of their shape, and the axis of its positions; None where none is given."""
    mine = [name for name, x in given.items() if x.dtype.kind == "f" and list(x.shape) == facts.get("values")]
    axis = facts.get("value axis")
    return (mine[-1], axis) if mine and isinstance(axis, int) else None


def _masks(caller: Caller, way: Way) -> list[tuple[str, np.ndarray]]:
    kinds = way.guess.by_name
    given = {**caller.arrays(way.guess), **way.arrays}
    return [(n, x) for n, x in given.items() if kinds.get(n, "").startswith(("mask", "added")) and x.shape[-1] > 2]


def sees(caller: Caller, way: Way, axis: str = "T", keys: str = "S") -> np.ndarray | None:
    """Which queries (rows) another key and value at each position (columns) changes the output of; None if unknown.

    axis: the letter of that along which the queries lie; keys: that of the keys, where there is one.
    """
    kinds = {".".join(path): kind for path, kind in way.guess.kinds if calls.is_floats(kind)}
    letter = keys if any(keys in kind for kind in kinds.values()) else axis
    along = {name: kind.index(letter) for name, kind in kinds.items() if kind.count(letter) == 1}
    if not along:
        return None
    given, drawn = caller.arrays(way.guess), np.random.default_rng(7)
    ways = [way]
    for position in range(way.guess.lengths.axis(letter)):
        moved = {}
        for name, place in along.items():
            moved[name] = given[name].copy()
            row = np.moveaxis(moved[name], place, 0)
            row[position] = drawn.normal(size=row[position].shape) * 2
        ways.append(replace(way, arrays={**way.arrays, **moved}))
    plain, *others = caller.ask(ways)
    if plain.failed or not plain.outputs or any(other.failed or not other.outputs for other in others):
        return None
    whole = plain.outputs[0]
    length = way.guess.lengths.axis(axis)
    axes = [place for place, n in enumerate(whole.shape) if n == length]
    if not whole.size or len(axes) != 1 or any(other.outputs[0].shape != whole.shape for other in others):
        return None
    top = max(float(np.nanmax(np.abs(whole), initial=0)), 1e-12)
    with np.errstate(invalid="ignore"):
        apart = [other.outputs[0] - whole for other in others]
    rows = [np.moveaxis(x, axes[0], 0).reshape(length, -1) for x in apart]
    return np.stack([np.abs(row).max(1) > _SAME * top for row in rows], 1)


class Band(NamedTuple):
    """How many positions back and ahead every query sees, and no further; None where no end is seen.

    And the line that makes it so, where a mask does.
    """

    back: int | None = None
    ahead: int | None = None
    line: int | None = None


def reach(caller: Caller, guess: Guess, values: Mapping[str, Any] | None = None) -> Band:
    """The positions that every query sees, where they are a band around its own; a mask that is given hides none.

    Nor do the numbers of documents, where all are one, and words, where none is 0.
    """
    for length in (_POSITIONS, guess.lengths.T):
        wide = guess.sized(T=length, S=length)
        masks, known = _masks(caller, Way(wide)), False
        given = caller.arrays(wide)
        whole = [name for name, x in given.items() if x.dtype.kind in "iu" and x.ndim > 1]
        words = len(whole) == len(given)
        alike = {name: np.maximum(given[name], 1) if words else np.ones_like(given[name]) for name in whole}
        # What hides in one may show in the other.
        for shows, of_one in product((True, False) if masks else (True,), (alike, {}) if alike else ({},)):
            open_ = {name: np.full_like(x, shows and x.dtype.kind == "b") for name, x in masks}
            way = Way(wide, of_one | open_, values or {})
            # By what its mask hides, or else by what changes its output; behind several layers it sees further.
            facts = caller.ask([replace(way, extra={"record": {}})])[0].judged.get("facts", {})
            if "reach" in facts:
                return Band(facts["reach"], facts["ahead"], facts["mask made"])
            cells = sees(caller, way)
            if cells is None:
                continue
            known, away = True, np.arange(length) - np.arange(length)[:, None]
            back, ahead = (-away[cells].min(), away[cells].max()) if cells.any() else (-1, -1)
            banded = min(back, ahead) >= 0 and max(back, ahead) < length - 1
            if banded and np.array_equal(cells, (away >= -back) & (away <= ahead)):
                return Band(int(back), int(ahead))
        if known:
            break
    return Band()
