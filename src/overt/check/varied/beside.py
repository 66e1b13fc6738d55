"""Calls beside the one that was found: with fewer key heads, with more axes, of another instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import isclose, log
from typing import Any

from overt.check.calls import call as calls
from overt.check.calls.call import Guess, Lengths, Tried
from overt.check.findings import Findings
from overt.check.process.session import Here, Session
from overt.check.report import Kind
from overt.check.text import shapes
from overt.check.text.interface import Interface
from overt.check.text.roles import constructor_role
from overt.check.varied.asking import Caller, Way

# Heads of queries and of keys, neither as many as samples.
_HEADS, _KEY_HEADS = 6, 3
# Matrices of which two are made smaller.
_SQUARE = 5
# Axes with letters of their own that are made as long as some heads are together.
_OWN = 3
# An equal length of all axes, and how many calls that failed are made with it.
_EDGE, _CUBES = 6, 12
# Lengths no two of which have in common what those of a first call may have.
_OTHERS = Lengths(3, 2, 6, 9, 10, 20)
# Samples, queries and keys that nothing else has, and that divide no width.
_PRIMES = 3, 11, 13
# How many times as wide heads are made, and how far a power of that is told.
_WIDER, _LOOSE = 4, 0.02
# What may be room for positions.
_ROOM = 16
# Numbers in all arrays of such a call.
_LARGEST = 1 << 20


@dataclass
class Made:
    """What instances were made of, by their handles."""

    session: Session | Here
    maker: Interface | None
    guesses: dict[int, Guess] = field(default_factory=dict)
    # whole numbers that they hold, in their dictionaries too
    held: dict[int, dict[str, int]] = field(default_factory=dict)
    # the shapes of their weights
    shapes: dict[int, list[Any]] = field(default_factory=dict)
    # those that hold half as wide numbers unless they are told
    narrow: set[int] = field(default_factory=set)

    def build(self, guess: Guess, values: Mapping[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
        """Make an instance; gives the reply."""
        assert self.maker is not None
        kwargs, arrays = calls.named(guess, self.maker)
        kwargs = calls.valued(kwargs, values or {}, self.maker.configs)
        backend = self.maker.description["backend"]
        reply, _ = self.session.ask({"op": "build", "kwargs": kwargs, "seed": 1, **asked, "backend": backend}, arrays)
        if "error" not in reply:
            self.guesses[reply["handle"]] = guess
            self.narrow |= {reply["handle"]} if reply["narrow"] else set()
            numbers = {name.partition(".")[2] or name: n for name, n in reply["numbers"].items() if type(n) is int}
            self.held[reply["handle"]], self.shapes[reply["handle"]] = numbers, reply["shapes"]
        return reply

    def of(self, caller: Caller) -> tuple[Guess, Interface] | None:
        """What the instance that is called was made of, where it was made here."""
        guess = self.guesses.get(-1 if caller.handle is None else caller.handle)
        return None if guess is None or self.maker is None else (guess, self.maker)

    def other(
        self, caller: Caller, values: Mapping[str, Any], guess: Guess | None = None, **asked: Any
    ) -> Caller | None:
        """A caller of another such instance, with other values or another guess."""
        was = self.of(caller)
        reply = self.build(guess or was[0], values, **asked) if was is not None else {"error": None}
        return None if "error" in reply else replace(caller, handle=reply["handle"])

    def alike(self, one: Caller, two: Caller) -> bool:
        """Whether the weights of two instances have the same shapes."""
        return self.shapes.get(one.handle or 0) == self.shapes.get(two.handle or 0)

    def numbers(self, caller: Caller) -> dict[str, int]:
        """Numbers and flags that the instance was made of."""
        guess, maker = self.of(caller) or (None, None)
        return {} if guess is None or maker is None else numbers(guess, maker)

    def training(self, caller: Caller) -> Caller | None:
        """A caller of another such instance that was never put out of training, and drops half."""
        guess, maker = self.of(caller) or (None, None)
        if guess is None or maker is None:
            return None
        drop = maker.by_role.get("drop")
        dropping = [drop.name] if drop else [path[0] for path, kind in guess.kinds if kind == "0.0"][:1]
        return self.other(caller, dict.fromkeys(dropping, 0.5), evaluate=False)


def numbers(guess: Guess, face: Interface) -> dict[str, int]:
    """Whole numbers and flags that a call is given, or takes where they are left out; in configurations too."""
    kinds = guess.by_name
    told = {a.name: a.default for a in face.arguments if a.name not in kinds}
    told |= {name: calls.VALUES[kind](guess.lengths) for name, kind in kinds.items() if kind in calls.VALUES}
    for name, number in face.configs.items():
        told |= {f"{name}.{key}": n for key, n in face.description["configs"][number]["numbers"].items()}
    for name, some in face.makers.items():
        rows = next((maker["parameters"] for maker in some if kinds.get(name) == f"by {maker['name']}"), ())
        told = {f"{name}.{row['name']}": row["default"] for row in rows} | told
    return {name: n for name, n in told.items() if isinstance(n, bool | int)}


def grouped(made: Made, caller: Caller, guess: Guess, findings: Findings) -> None:
    """Fewer key heads than query heads, where there may be fewer."""
    told = findings.found.get("gqa_tile")
    if told is not None and caller.face.declared_grouped:
        findings.found["gqa_tile"] = replace(told, kind="mistake")
    letters = {letter for _, kind in guess.kinds for letter in calls.axes_of(kind)}
    key = "G" if "G" in letters else None
    if key is None and "H" in letters:
        # An axis of its own that had to be as long as that of the heads.
        key = next((a for a, n in guess.lengths.more if a in letters and n == guess.lengths.H), None)
    lengths = replace(guess.lengths, H=_HEADS, W=_HEADS * guess.lengths.D, G=_KEY_HEADS)
    if key is not None:
        lengths = lengths.resized(key, _KEY_HEADS)
    ran: Iterable[dict[str, Any]] = ()
    if caller.handle is not None:
        first, maker = made.of(caller) or (None, None)
        if first is None or maker is None:
            return
        own = maker.by_role.get("groups")
        # A configuration may tell of them, or any number whose name says nothing.
        named: list[tuple[str, ...]] = [(own.name,)] if own is not None else []
        named += [path for path, kind in first.kinds
                  if kind == "number of key heads" or constructor_role(path[-1]) == "groups"]  # fmt: skip
        if named:
            some = first.given(named[0], "number of key heads")
            fewer = (replace(one, lengths=lengths) for one in (some, *_narrower(some)))
            others = (other for one in fewer if (other := made.other(caller, {}, one)) is not None)
            ran = (other.recorded(replace(guess, lengths=lengths))[0] for other in others)
        else:
            halves = ({name: was // 2} for name, was in numbers(first, maker).items() if type(was) is int and was > 2
                      and was % 2 == 0 and constructor_role(name.rpartition(".")[2]) is None)  # fmt: skip
            built = (made.other(caller, values) for values in halves)
            ran = (other.recorded(guess)[0] for other in built if other is not None)
    elif key is not None and "H" in letters:
        ran = caller.recorded(replace(guess, lengths=lengths))
    elif "number of key heads" in dict(guess.kinds).values():
        # What the module makes goes with their number, and other matrices have to be narrower.
        fewer = (replace(one, lengths=n) for n in _together(guess, lengths) for one in (guess, *_narrower(guess)))
        ran = (told for one in fewer for told in caller.recorded(one))
    judged = next((one for one in ran if any(e["step"].endswith("groups") for e in one.get("ledger", ()))), {})
    for fault in judged.get("faults", ()):
        if fault["step"] == "groups":
            documented = fault["mistake"] == "gqa_tile" and caller.face.declared_grouped
            findings.add(fault["mistake"], kind="mistake" if documented else None, line=fault["line"], look="(?!)")
    groups = [entry for entry in judged.get("ledger", ()) if entry["step"] == "groups"]
    findings.enter([{"facts": {}, "ledger": groups}])


def _together(guess: Guess, lengths: Lengths) -> Iterator[Lengths]:
    """Lengths, and the same where axes of their own letters are as long as all heads, or as all key heads, together."""
    yield lengths
    used = {letter for _, kind in guess.kinds for letter in calls.axes_of(kind)}
    own = {"U": guess.lengths.U} | dict(guess.lengths.more)
    widths = {a: n // guess.lengths.H for a, n in own.items() if a in used and n and n % guess.lengths.H == 0}
    for heads in product((lengths.H, lengths.G), repeat=len(widths)) if len(widths) <= _OWN else ():
        several = lengths
        for (letter, width), many in zip(widths.items(), heads, strict=True):
            several = several.resized(letter, many * width)
        yield several


def _narrower(guess: Guess) -> Iterator[Guess]:
    """The same with two of the square matrices as those that make keys and values, of fewer heads."""
    square = combinations([path for path, kind in guess.kinds if kind == "WW"][:_SQUARE], 2)
    return (guess.given(one, kind).given(two, kind) for (one, two), kind in product(square, ("KW", "WK")))


def scaled(
    made: Made,
    caller: Caller,
    guess: Guess,
    told: Sequence[Mapping[str, Any]],
    findings: Findings,
    look: Callable[[Caller, Guess], dict[str, Any]] = lambda caller, guess: caller.recorded(guess)[0],
) -> None:
    """A factor of the scores that goes with the width as no 1/√D does, where a constant one might be meant.

    told: facts of the call, and of it with other lengths, where a factor may be odd that is 1/√D by accident; look:
    what a call comes to.
    """
    facts = told[0]
    odd = next((one["odd scale"] for one in told if one.get("odd scale")), None)
    if not odd or odd["scale"] not in [one.get("scale") for one in told] or "scale" not in facts:
        return
    if any(name.startswith("scale_") for name in findings.found):
        # What is wrong with it is known.
        return

    first = made.of(caller)
    given = [*guess.kinds, *(first[0].kinds if first is not None else ())]
    handed = (
        [calls.VALUES[kind](first[0].lengths) for _, kind in first[0].kinds if kind in calls.VALUES] if first else []
    )
    if any(kind in ("scale", "root of a width") for _, kind in given) or any(
        isclose(odd["scale"], n, rel_tol=1e-5) for n in handed
    ):
        # A factor that was given goes with the width as that does.
        return
    # What an instance was made of may go with other lengths too.
    alone = told[1] if len(told) > 1 and not (first and first[0].kinds) else {}
    if (
        alone.get("scored width") == facts["scored width"]
        and abs(alone["scale"] / facts["scale"] - 1) > _WIDER * _LOOSE
    ):
        may = next(iter(alone.get("scale may be", ())), "") or "unknown"
        if may == "unknown" and ("term" in facts or "log" in caller.face.text):
            # It may go with the widths of other terms; and longer sequences may be meant to have sharper weights.
            return
        says = "The factor of the scores goes with lengths or samples, and not with the width alone."
        fault = {"mistake": may, "kind": None, "step": "scale", "says": says, "expected": "", "actual": ""}
        findings.tell(fault | {"file": odd["file"], "line": odd["line"]})
        return
    other: Caller | None = caller
    if caller.handle is not None:
        widths = ("model_dim", "head_dim", "att_dim")
        values = {name: _WIDER * n for name, n in made.numbers(caller).items() if constructor_role(name) in widths}
        other = made.other(caller, values, broader(first[0])) if first is not None else None
    if other is None:
        return
    more = look(other, broader(guess)).get("facts", {})
    ratio = more.get("scale", 0) / facts["scale"]
    if more.get("scored width") != _WIDER * facts["scored width"] or ratio <= 0:
        return
    power, says = log(ratio, _WIDER), ""
    if caller.face.declared_by_width and abs(power + 1) <= _LOOSE:
        return
    if min(abs(power), abs(power + 0.5)) > _LOOSE:
        says = f"The factor of the scores goes with the width to the power {power:.3g}, and not −0.5."
    elif {"bias", "term"} & set(facts) or "log" in caller.face.text:
        # What else is part of the scores, or how long a sequence is, may have to do with it.
        return
    else:
        heads = _twice(made, caller, guess, facts["scored width"], look)
        # What an instance was made with may stay as it is; what it has can be in twice as many heads.
        anew = first is None or bool(first[0].kinds)
        sized = len(told) > 1 and anew and (caller.handle is None or abs(power) <= _LOOSE)
        again = made.other(caller, heads) if heads and not sized else None
        away = told[1] if sized else look(again, guess).get("facts", {}) if again is not None else {}
        expected = facts["scale"] * (away.get("scored width", 1) / facts["scored width"]) ** power
        if "scale" in away and abs(away["scale"] / expected - 1) > _WIDER * _LOOSE:
            says = "The factor of the scores goes with lengths, samples or heads, and not with the width alone."
            twice = made.other(caller, heads) if heads else None
            scales = {min(heads.values()): look(twice, guess).get("facts", {}).get("scale", 0)} if twice else {}
            scales |= {n // 2: facts["scale"] for n in scales}
            if scales and all(abs(scale * n**0.5 - 1) < _LOOSE for n, scale in scales.items()):
                fault = {"mistake": "scale_num_heads", "kind": None, "step": "scale", "expected": "", "actual": ""}
                findings.tell(fault | {"file": odd["file"], "line": odd["line"]})
                return
    if says:
        fault = {"mistake": "unknown", "kind": "unknown", "step": "scale", "says": says, "expected": "", "actual": ""}
        findings.tell(fault | {"file": odd["file"], "line": odd["line"]})


def _twice(
    made: Made, caller: Caller, guess: Guess, width: int, look: Callable[[Caller, Guess], dict[str, Any]]
) -> dict[str, int]:
    """Twice as many heads: of what is called so, or else of what leaves each of them half of its width."""
    numbers = {name: n for name, n in made.numbers(caller).items() if type(n) is int and n > 1}
    called = {name: 2 * n for name, n in numbers.items() if constructor_role(name) == "heads"}
    for name, n in numbers.items() if not called else ():
        other = made.other(caller, {name: 2 * n})
        if other is not None and 2 * look(other, guess).get("facts", {}).get("scored width", 0) == width:
            return {name: 2 * n}
    return called


def settled(
    found: dict[str, Any], others: Sequence[Mapping[str, Any]], seen: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a recording came to without a scale that is wrong in its lengths alone.

    Half of 4 is its root: what is one factor beside 1/√width, or one with any width, is not what it seemed to be.
    others: recordings with other widths; seen: all that were made beside these.
    """
    one = found["facts"]
    for told in (other["facts"] for other in others):
        if "scale" not in told or "scale" not in one or not one["scale"]:
            continue
        ratio, root = told["scale"] / one["scale"], (one["scored width"] / told["scored width"]) ** 0.5
        known = {fault["mistake"] for other in others for fault in other["faults"] if fault["step"] == "scale"}
        if min(abs(ratio - 1), abs(ratio - root)) < _LOOSE and root != 1:
            return _unscaled(found, known)
    names, rivals = list(one.get("scale may be", ())), set(one.get("scale may be", ()))
    if names != [""] and any(other["facts"].get("scale may be") == [] for other in others):
        # A number may be what it seems by accident.
        return _unscaled(found)
    for fits in (other["facts"].get("scale may be", ()) for other in (*others, *seen)):
        # Two lengths were the same, and it was taken for the wrong one.
        names, rivals = [name for name in names if name in fits] or names, rivals | {*fits}
    if names and names[0]:
        # Another attention may have another mistake.
        faults = [x | {"mistake": names[0]} if x["step"] == "scale" and x["mistake"] in rivals else x
                  for x in found["faults"]]  # fmt: skip
        found = found | {"faults": faults}
    return found


def _unscaled(found: dict[str, Any], known: Collection[str] = ()) -> dict[str, Any]:
    """A recording without what it says of the scale, but for mistakes that are known."""
    kept = {what: [x for x in found[what] if not x["step"].endswith("scale") or x["mistake"] in (None, *known)]
            for what in ("faults", "ledger")}  # fmt: skip
    return found | kept


def filled(
    caller: Caller, guess: Guess, ways: Sequence[Way], told: Sequence[Mapping[str, Any]], findings: Findings
) -> None:
    """Keys of zeros that fill something up and have weight: as many as lengths make room for, or where none may.

    ways: calls with what may be left out; told: facts of the call, and of it with other lengths.
    """
    blank = next((facts["blank"] for facts in told if facts.get("blank")), None)
    masks = {a.name for a in caller.face.arguments if a.role == "mask"}
    given = {str(path[0]) for one in (guess, *(way.guess for way in ways)) for path, _ in one.kinds}
    if blank is None or (masks and not masks & given):
        # A mask that is none of the positions is made of what is filled up, and may hide that.
        return
    letter = "S" if any("S" in calls.axes_of(kind) for _, kind in guess.kinds) else "T"
    longer = [guess.sized(**{letter: guess.lengths.axis(letter) + n}) for n in (1, 2)]
    others = [one["facts"] for one in caller.recorded(*longer) if one.get("cores")]
    promised = caller.face.intents["slots unwritten"]
    if promised or len({(facts.get("blank") or {"keys": 0})["keys"] for facts in (*told[:1], *others)}) > 1:
        what = "where nothing was written" if promised else "as many as fill up what was given to a length of its own"
        says = f"Keys of zeros, {what}, take weight from the others."
        fault = {"mistake": "unknown", "kind": "unknown", "step": "mask", "says": says, "expected": "", "actual": ""}
        findings.tell(fault | {"file": blank["file"], "line": blank["line"]})


def elsewhere(guess: Guess) -> Guess:
    """The same with other lengths; what had to be equal stays so."""
    n = guess.lengths
    S = _OTHERS.S if n.S != n.T else _OTHERS.T
    return replace(guess, lengths=replace(_OTHERS, S=S, G=_OTHERS.H if n.G else 0, more=n.more))


def broader(guess: Guess) -> Guess:
    """The same with larger widths alone."""
    n = guess.lengths
    return guess.sized(D=_WIDER * n.D, W=_WIDER * n.W, U=_WIDER * n.U)


def _longer(guess: Guess) -> list[Guess]:
    """The same with other lengths alone, and the widths that an instance has; or with one axis of its own longer."""
    B, T, S = _PRIMES
    n, plain = guess.lengths, {*"BTSHDWGU", *calls.PLAIN}
    own = {axis for kind in guess.by_name.values() if calls.is_floats(kind) for axis in kind} - plain
    longer = [replace(guess, lengths=n.resized(axis, 3 * n.axis(axis) - 1)) for axis in sorted(own)]
    return [guess.sized(B=B, T=T, S=S if n.S != n.T else T), *longer]


def resized(
    made: Made,
    caller: Caller,
    guess: Guess,
    found: Mapping[str, Any],
    change: Callable[[Guess], Guess] = elsewhere,
) -> list[dict[str, Any]]:
    """What a recording comes to with other lengths: half of 4 is its root, and what is right in one size may not be."""
    other, asked = change(guess), caller
    first, _ = made.of(caller) or (None, None)
    if caller.handle is not None:
        if first is None:
            return []
        # A number that happens to be as large as the width is no length where nothing else is the width.
        wide = [path for path, kind in first.kinds
                if kind in calls.VALUES and calls.VALUES[kind](first.lengths) == guess.lengths.W]  # fmt: skip
        first = first.given(wide[0], "width of all") if len(wide) == 1 else first
        # What it was made with may have axes of its own.
        more = {**dict(first.lengths.more), **dict(other.lengths.more)}
        built = made.other(caller, {}, replace(first, lengths=replace(other.lengths, more=tuple(more.items()))))
        if built is None:
            return []
        asked = built
    # An image may have to have the sides that it has.
    sides = tuple((a, by * other.lengths.axis(a)) for a, by in (("h", 2), ("w", 3)))
    image = any(calls.is_floats(kind) and {"h", "w"} <= {*kind} for _, kind in guess.kinds)
    guesses = [*([other.sized(more=(*other.lengths.more, *sides))] if image else []), other]
    told = [judged for judged in asked.recorded(*guesses) if judged.get("cores") == found["cores"]]
    if not told and first is not None and not first.kinds and change is elsewhere:
        # It has the widths that it has.
        told = [judged for judged in caller.recorded(*_longer(guess)) if judged.get("cores") == found["cores"]]
    return told[:1]


def overrun(made: Made, caller: Caller, guess: Guess, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What steps that ask one by one come to, where there are more than an instance's numbers may have room for."""
    T = guess.lengths.T
    room = [n for n in made.numbers(caller).values() if type(n) is int and T <= n <= _ROOM]
    if not room or found["cores"] < T or found["facts"].get("queries") != 1:
        return []
    T = 2 * min(room) + 1
    longer = guess.sized(T=T, S=guess.lengths.S if guess.lengths.S != guess.lengths.T else T)
    return [judged for judged in caller.recorded(longer) if judged.get("cores")]


def turned(caller: Caller, tried: Sequence[Tried], guess: Guess | None, findings: Findings) -> bool:
    """Keys that are turned over the wrong axes: what fails in any lengths runs where all are equal."""
    failed = [one.guess for one in tried if one.error is not None and _rank(one.guess) > 2][:_CUBES]
    edges = (_EDGE,) if caller.handle is None else tuple({n for g in failed for n in (g.lengths.D, g.lengths.W)})
    face, whole = caller.face, caller.handle is None
    ways = [Way(replace(one, lengths=_cube(one.lengths, edge, whole)), extra={"record": face.intents})
            for one in dict.fromkeys(failed) for edge in edges]  # fmt: skip
    ways = [way for way in ways if way.guess.size < _LARGEST]
    # Where all axes are equal, many calls are one.
    alike = {str([(n, x.shape, x.dtype) for n, x in caller.arrays(way.guess).items()]): way for way in ways[::-1]}
    ways = [way for way in [*alike.values()][::-1] if sum(x.size for x in caller.arrays(way.guess).values()) < _LARGEST]
    told = shapes.shapes(face.described, [a.name for a in face.arguments])
    if guess is not None and not told and not face.layouts_in(face.description["doc"]) and _columns(face, guess):
        # Keys are given with their features first.
        return False
    documented = {len(layout) for layout in face.layouts} | {len(one.axes) for one in told.values() if not one.sort}
    # What shapes are taken apart into are as many axes, whatever these are called.
    names = "|".join(re.escape(a.name) for a in face.arguments)
    taken = re.findall(rf"^\s*(\w+(?:, *\w+)+) *= *(?:{names})\.shape$", face.code, re.MULTILINE)
    documented |= {len(words.split(",")) for words in taken}
    if any(base.startswith("torch.nn") for base in face.description["bases"]) and "TD" not in face.told_layouts:
        # Modules are given samples.
        documented.add(3)
    for way, answer in zip(ways, caller.ask(ways), strict=True):
        fact = answer.judged.get("facts", {}).get("turned")
        rank = _rank(way.guess)
        sure = rank in documented
        # Of arrays of two axes, somebody may give samples of them where nothing says that there are two.
        likely = guess is not None and (_rank(guess), rank) == (2, 3) and 2 not in documented
        if fact is None or answer.failed or not (sure or likely):
            continue
        kind: Kind = "mistake" if sure else "risk"
        findings.add("k_transposed_wrong", kind=kind, certain=sure, line=fact["line"], look="(?!)")
        return True
    return False


def _columns(face: Interface, guess: Guess) -> bool:
    """Whether the features of queries are as many as what stands before the last axis of keys, and as no other axis."""
    one, two = (guess.by_name.get(face.by_role[r].name, "") if r in face.by_role else "" for r in ("q", "k"))
    return len(one) > 2 and len(one) == len(two) and one[-1] == two[-2] != two[-1] and one[-2] != two[-1]


def _rank(guess: Guess) -> int:
    """How many axes the arrays of numbers have, where all have as many; 0 where they have not."""
    ranks = {len(kind) for _, kind in guess.kinds if calls.is_floats(kind) and set(kind) & set("TS")}
    return ranks.pop() if len(ranks) == 1 else 0


def _cube(lengths: Lengths, edge: int, whole: bool) -> Lengths:
    """Lengths that are all one; of an instance the widths stay."""
    more = tuple((letter, edge) for letter, _ in lengths.more)
    if whole:
        return Lengths(edge, edge, edge, edge, edge, edge, edge, edge, more)
    return replace(lengths, B=edge, T=edge, S=edge, more=more)


def wider(caller: Caller, guess: Guess, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a recording comes to with a wider image, which has several windows where the other had one."""
    # Weights in a dictionary are no image.
    images = [kind for path, kind in guess.kinds if calls.is_floats(kind) and len(kind) == 4 and len(path) == 1]
    if len(images) != 1:
        return []
    guesses = []
    for axes in ("hw",) if {"h", "w"} <= {*images[0]} else (images[0][2:], images[0][1:3]):
        for by in ((1, 2), (2, 2)) if len(set(axes)) == 2 else ():
            sides = [(a, n * guess.lengths.axis(a)) for a, n in zip(axes, by, strict=True)]
            guesses.append(guess.sized(more=(*guess.lengths.more, *sides)))
    return [judged for judged in caller.recorded(*guesses) if judged.get("cores") == found["cores"]][:1]
