"""What is agreed on beside the numbers: how packed rows lie, which axis has the samples, what is registered.

What is there is seen in a recording, or by another call; whether it should be, only the text says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls import trees
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.steps.definitions import same
from overt.check.text.interface import Interface
from overt.check.text.lines import failed_at
from overt.check.text.roles import constructor_role, role
from overt.check.text.shapes import shapes
from overt.check.text.syntax import parsed
from overt.check.varied import displaced, samples
from overt.check.varied.asking import Answer, Caller, Way, differ, reach, sees, values_in
from overt.check.varied.beside import Made
from overt.check.varied.beside import numbers as told

# So many positions that a third of them is a block.
_LONG = 12
# Positions that are two blocks of a half, and of two less than all a whole one and a shorter one.
_WHOLE = 6
# So many nodes that some lie deep in a tree.
_NODES = 9
# By so many positions a sequence is made shorter.
_FEWER = 2
# A share of the largest number, by which nothing changes.
_ROUNDING = 1e-7


def check(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """What the facts of a call, and some calls more, come to beside what is promised."""
    if lost := facts.get("unregistered", ()):
        findings.add(
            "python_list",
            message=f"{len(lost)} parameters are not registered (such as {', '.join(lost[:3])}): "
            "the layers are in a plain list or dict, so nothing trains, moves or saves them.",
            # Where what has no name of its own is kept.
            look="|".join(rf"self\.{name}\b.*[=.]" for name in _holders(lost)),
        )
        # Nor does eval() come to them, which is nothing to a function that is not told of it.
        drops = findings.found.get("dropout_eval")
        if drops and not re.search(r"(F|functional)\.dropout\((?!.*training)", (drops.where or {}).get("text", "")):
            del findings.found["dropout_eval"]
    packed(caller.face, facts, findings)
    _capped(caller, facts, findings)
    _idle(caller, guess, facts, findings)
    samples.check(caller, guess, facts, findings)
    _places(caller, guess, findings)
    _tree(caller, guess, facts, findings)
    _lengths(caller, guess, facts, findings)
    _one_length(caller, guess, facts, findings)
    _first_ones(caller, guess, facts, findings)
    _answered(caller, guess, facts, findings)


def packed(face: Interface, facts: Mapping[str, Any], findings: Findings) -> None:
    """In which order the rows of a packed projection are read, beside what is said of them."""
    packing = facts.get("packing")
    if packing is not None:
        order, promised = packing["order"], face.promised_packing
        # With one head its three are the first of all.
        alone = promised == "heads first" and packing["heads"] == 1
        if face.told_thirds and order.startswith("heads first"):
            findings.add("qkv_order", line=packing["line"])
        elif (
            promised is None or order.startswith(promised) or alone or (order == "thirds" and promised != "heads first")
        ):
            findings.convention["packed projection"] = order
        else:
            # A name, or the three in a row, promise no more than that these are there.
            loose = order.startswith("heads first") and not (face.told_packing and face.thirds)
            findings.add("qkv_order", kind="convention" if loose else None, line=packing["line"])


def _capped(caller: Caller, facts: Mapping[str, Any], findings: Findings) -> None:
    """A cap that an instance keeps, or that a function takes, and nothing reads, where no scores were capped."""
    told = caller.face.description
    nodes = [*ast.walk(parsed(f"{told['source']}\n{told['reached']}"))]
    names = [x for x in nodes if isinstance(x, ast.Attribute)]
    kept = {x.attr for x in names if isinstance(x.ctx, ast.Store) and role(x.attr, ("cap",))}
    # What is only kept under the same name is not read yet.
    both = [(x.targets[0], x.value) for x in nodes if isinstance(x, ast.Assign)]
    handed = [y for x, y in both if isinstance(x, ast.Attribute) and isinstance(y, ast.Attribute) and x.attr == y.attr]
    read = {x.attr for x in names if isinstance(x.ctx, ast.Load) and not any(x is y for y in handed)}
    unread = sorted(kept - read)
    called = {getattr(x.func, "attr", getattr(x.func, "id", "")) for x in nodes if isinstance(x, ast.Call)}
    for function in (x for x in nodes if isinstance(x, ast.FunctionDef) and x.name in called):
        taken = {a.arg for a in function.args.args if role(a.arg, ("cap",))}
        unread += sorted(taken - {x.id for x in ast.walk(function) if isinstance(x, ast.Name)})
    if unread and not facts.get("capped"):
        findings.add("softcap_missing", line=findings.at("scores"), look=rf"\.{unread[0]}\b")


def _idle(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Queries, keys or values that are given and change nothing: of what is new in a cache nothing may come out."""
    arrays = caller.arrays(guess)
    roles = ("q", "k", "v") if facts.get("weighs several") else ("v",)
    given = {a.role: a.name for a in caller.face.arguments if a.role in roles and a.name in arrays}
    # Of several calls each may have its own.
    if findings.wrong or caller.face.description["composed"] or caller.face.description.get("life"):
        return
    plain, *others = caller.ask([Way(guess), *(Way(guess, {name: 2 * arrays[name] + 1}) for name in given.values())])
    idle = [one for one, other in zip(given, others, strict=True) if _alike(plain, other)]
    # Where queries and keys alone change nothing, the values are those of something else.
    for one in idle if "v" in idle or len(idle) < len(given) else ():
        at = findings.at("mixing" if one == "v" else "scores")
        findings.add("unknown", message=f"Nothing that it gives depends on {given[one]}.", line=at)


def _alike(plain: Answer, other: Answer) -> bool:
    """Whether two answers are one but for rounding."""
    both = [*zip(plain.outputs, other.outputs, strict=False)]
    return bool(both) and not (plain.failed or other.failed) and all(same(x, y, _ROUNDING) for x, y in both)


def _places(caller: Caller, guess: Guess, findings: Findings) -> None:
    """Places that are told by row and column, one of which changes nothing."""
    face = caller.face
    told = " ".join((face.prose, face.description.get("told", ""), face.description.get("around", ""))).lower()
    if findings.wrong or not re.search(r"\brows?\b[^.]{0,60}\bcol(umn)?s?\b", told):
        return
    plain, roles = Way(guess), {a.name: a.role for a in face.arguments}
    # What a mask is of may be hidden.
    along = {axis for kind in guess.by_name.values() if calls.is_mask(kind) for axis in calls.axes_of(kind)}
    for name, x in caller.arrays(guess).items():
        axes = calls.axes_of(guess.by_name[name])
        inner = len(axes) > 1 and not calls.is_mask(guess.by_name[name]) and axes[-1] not in {*"BTShw", *along}
        if not inner or x.shape[-1] < 2 or roles.get(name, "x") not in (None, "positions"):
            continue
        moved = [x.copy(), x.copy()]
        for axis, other in enumerate(moved):
            other[..., axis] = np.roll(x[..., axis], 1, -1)
        if any(np.array_equal(x, other) for other in moved):
            continue
        first, *others = caller.ask([plain, *(replace(plain, arrays={name: other}) for other in moved)])
        used = [differ(first, other) for other in others]
        if sum(used) == 1 and not any(other.failed for other in others):
            says = f"Of {name}, {'rows' if used[0] else 'columns'} alone are read, and nothing depends on the others."
            findings.add("unknown", message=says)
            return


def _tree(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Nodes of a tree that do not see all that they hang on, or see others, where that is what each is said to see."""
    if findings.wrong or not {*trees.TREES} & {*guess.by_name.values()} or not caller.face.intents["sees ancestors"]:
        return
    wide = guess.sized(T=_NODES)
    cells, seen = sees(caller, Way(wide), keys="T"), np.array(trees.ancestors(_NODES))
    if cells is not None and not np.array_equal(cells, seen):
        some = "some" if (cells | seen == seen).all() else "not only those"
        says = f"A node of the tree is said to see all nodes on its way from the root, and sees {some} of them."
        findings.add("unknown", message=says, line=facts.get("mask made"))
    elif cells is not None:
        findings.entered("tree", "each node sees those on its way from the root, and no others")


def _answered(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Some of the queries that were given, and neither all nor the last alone, have an output."""
    face, given = caller.face, caller.arrays(guess)
    name = next((a.name for a in face.arguments if a.role == "q"), "")
    axes = calls.axes_of(guess.by_name.get(name, ""))[:-1]
    if name not in given or "T" not in axes or not (face.has("k") and face.has("v")):
        return
    (plain,) = caller.ask([Way(guess)])
    along, asked = axes.index("T"), given[name].shape[:-1]
    shape = plain.outputs[0].shape[:-1] if plain.outputs else ()
    others = [(a, b) for n, (a, b) in enumerate(zip(shape, asked, strict=False)) if n != along]
    if len(shape) == len(asked) and all(a == b for a, b in others) and 1 < shape[along] < asked[along]:
        says = f"Of {asked[along]} queries only {shape[along]} have an output."
        findings.add("unknown", kind="unknown", message=says, line=facts.get("mixed at"), look="(?!)")


def options(caller: Caller, guess: Guess, made: Made, facts: Mapping[str, Any], findings: Findings) -> None:
    """What other numbers and flags come to, of the call and of the constructor."""
    known, numbers = set(findings.found), made.numbers(caller)
    for name, was in numbers.items():
        other = made.other(caller, {name: not was}) if isinstance(was, bool) else None
        # Which keys are hidden, where nobody gave a mask, no flag turns into something else.
        for fault in other.recorded(guess)[0].get("faults", ()) if other is not None else ():
            if fault["step"] == "causal" and fault["mistake"] not in known:
                findings.tell(fault)
    if not facts.get("weights returned"):
        _asked_for(caller, guess, findings)
    _window(caller, guess, made, numbers, facts, findings)
    for name, was in numbers.items() if "window" not in findings.convention else ():
        if isinstance(was, bool):
            # It may have a window only where a flag says so.
            _window(caller, guess, made, numbers, {}, findings, {name: not was})
    rests(caller, guess, made, findings)
    if not findings.wrong:
        _blocks(caller, guess, made, numbers, facts, findings)
        displaced.check(caller, guess, made, numbers, findings)


def _holders(lost: Sequence[str]) -> list[str]:
    """The attributes that hold, by numbers or other keys, what parameters were lost of."""
    found = (re.search(r"(?:^|\.)(\w+)\.\d+\.", name) for name in lost)
    return [*dict.fromkeys(one[1] for one in found if one)]


def _asked_for(caller: Caller, guess: Guess, findings: Findings) -> None:
    """Whether a flag of the call that asks for weights is given scores."""
    flags = [
        a.name for a in caller.face.arguments if a.default is False and not re.search("raw|score|logit|energ", a.name)
    ]
    extra = {"record": caller.face.intents}
    for answer in caller.ask([Way(guess, values={name: True}, extra=extra) for name in flags]):
        for fault in answer.judged.get("faults", ()):
            if fault["mistake"] == "returns_scores":
                findings.tell(fault)


def _blocks(
    caller: Caller,
    guess: Guess,
    made: Made,
    numbers: Mapping[str, int],
    facts: Mapping[str, Any],
    findings: Findings,
) -> None:
    """What keys come to that come in several blocks, where a number that is smaller makes several of all of them."""
    n = guess.lengths
    long = guess.sized(T=_LONG, S=_LONG)
    # The keys may lie along an axis that was taken for another one, and a number may say how many of them count.
    values = values_in(caller.arrays(guess), facts)
    along = calls.axes_of(guess.by_name[values[0]])[values[1]] if values is not None else "S"
    whole = [path for path, kind in guess.kinds if kind in calls.VALUES and type(calls.VALUES[kind](n)) is int]
    for name, built in _large(caller, guess, numbers):
        wide = replace(guess, lengths=n.resized(along, _LONG))
        for path in whole:
            wide = wide.given(path, f"length of {along}") if ".".join(path) != name else wide
        # Where no argument lies along these, more of them are none.
        wider = wide.kinds != guess.kinds or any(along in calls.axes_of(kind) for _, kind in guess.kinds)
        instances: dict[int, Caller | None] = {}
        for other, block in ((long, _LONG // 3), *[(wide, _LONG // 3)] * wider, (guess, 2)):
            if block not in instances:
                instances[block] = made.other(caller, {name: block}) if built else caller
            one = instances[block]
            if one is not None and not made.alike(one, caller):
                # What makes other weights is a width, and no block of keys.
                break
            way = Way(other, values={} if built else {name: block})
            plain = one.ask([way]) if one is not None else []
            equal = built and numbers[name] != block and plain and _exact(plain, caller.ask([Way(other)]))
            if one is None or plain[0].failed or equal:
                # What is the same to the last digit was computed in the same way.
                continue
            judged = one.ask([replace(way, extra={"record": caller.face.intents})])[0].judged
            faults = [fault for fault in judged.get("faults", ()) if fault["step"] != "scale"]
            # What merges them wrongly is not seen as blocks of one softmax.
            if judged.get("facts", {}).get("blocks") or any(fault["step"] == "log-sum-exp" for fault in faults):
                for fault in faults:
                    findings.tell(fault)
                return


def _exact(one: Sequence[Answer], two: Sequence[Answer]) -> bool:
    """Whether two calls gave the very same numbers."""
    pairs = [*zip(one[0].outputs, two[0].outputs, strict=False)]
    return bool(pairs) and all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def _large(caller: Caller, guess: Guess, numbers: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Numbers that are no less than there are positions, of the call and of the constructor (True)."""
    for named, built in ((told(guess, caller.face), False), (numbers, True)):
        least = min(guess.lengths.T, guess.lengths.S)
        yield from ((name, built) for name, was in named.items() if type(was) is int and was >= least)


def rests(caller: Caller, guess: Guess, made: Made, findings: Findings) -> None:
    """What numbers come to that make blocks of positions, where nothing is wrong without them."""
    if not findings.wrong:
        large = _large(caller, guess, made.numbers(caller))
        any(_rest(caller, guess, made, name, built, findings) for name, built in large)


def _rest(caller: Caller, guess: Guess, made: Made, name: str, built: bool, findings: Findings) -> bool:
    """Whether a number that makes blocks, where those are as long as each other, loses some of the last otherwise."""
    # Whatever a number is, and not what is a number or more.
    free = (
        r"(not|n't|never) depends? on|independent of|whatever (the|its|`?\w+`? (is|are)|how)|same for (any|every|all)"
    )
    said = rf"({free})\b[^.;]{{0,40}}\b({re.escape(name)}|chunk|block|tile)"
    promised = constructor_role(name) != "window" and bool(re.search(said, " ".join(caller.face.prose.split())))
    answers: list[Answer] = []
    for block in (_WHOLE, _WHOLE - 2, _WHOLE // 2, _WHOLE // 3):
        one = made.other(caller, {name: block}) if built else caller
        way = Way(guess.sized(T=_WHOLE, S=_WHOLE), values={} if built else {name: block})
        answers += one.ask([way]) if one is not None else []
        if one is None or answers[-1].failed:
            return False
        if answers[1:] and not promised and differ(answers[0], answers[-1]) != (block == _WHOLE - 2):
            # Nothing is lost of the last block alone.
            return False
    whole, uneven, halves, thirds = answers
    if promised and differ(whole, halves):
        one = made.other(caller, {name: _WHOLE // 2}) if built else caller
        long = guess.sized(T=_LONG, S=_LONG)
        way = Way(long, values={} if built else {name: _WHOLE // 2}, extra={"record": caller.face.intents})
        faults = one.ask([way])[0].judged.get("faults", ()) if one is not None else ()
        # How several blocks are merged may be seen where they are longer.
        for fault in (merging := [fault for fault in faults if fault["step"] == "log-sum-exp"]):
            findings.tell(fault)
        if merging:
            return True
        findings.add(
            "unknown", look=rf"\b{re.escape(name)}\b",
            message=f"What it gives is said not to depend on {name}, and with {name}={_WHOLE // 2} it is not what "
            f"it is with {name}={_WHOLE}.",
            mend="Look at what is carried from one block to the next: maximum, sum and values must all be rescaled.",
        )  # fmt: skip
        return True
    # By what all is only shifted, such as half of a window, some of these come to the same.
    lost = not differ(whole, halves) and not differ(whole, thirds) and differ(whole, uneven)
    if lost:
        findings.add(
            "unknown", look=rf"//\s*(self\.)?{re.escape(name)}\b|\b{re.escape(name)}\b",
            message=f"With {name}={_WHOLE // 2}, {_WHOLE} positions come to what they do in one block, and with "
            f"{name}={_WHOLE - 2} they do not: the last block is shorter than others, and is not taken as it is.",
            mend="Divide upwards, and let the last block have what is left, or hide what fills it up.",
        )  # fmt: skip
    return lost


def _window(
    caller: Caller,
    guess: Guess,
    made: Made,
    numbers: Mapping[str, int],
    facts: Mapping[str, Any],
    findings: Findings,
    flags: Mapping[str, bool] = MappingProxyType({}),
) -> None:
    """Numbers that say how far back, or ahead, a query sees, by how far it does.

    flags: what else an instance is made with.
    """
    # Where nothing is hidden, a number that is not called so is none.
    roles = (
        ("window",) if not facts.get("hidden") and "causal" not in facts else ("window", "model_dim", "length", None)
    )
    windows = {a.name for a in caller.face.arguments if a.role == "window"}
    own = [name for name, was in told(guess, caller.face).items() if type(was) is int]
    own += sorted(windows - {*own, *guess.by_name})
    # What an instance holds may be called so by its constructor.
    held = made.held.get(-1 if caller.handle is None else caller.handle, {})
    built = [name for name, was in {**held, **numbers}.items() if type(was) is int]
    for name, making in [*((name, False) for name in own if not flags), *((name, True) for name in built)]:
        if (making or name not in windows) and constructor_role(name.rpartition(".")[2]) not in roles:
            continue
        one, two = (made.other(caller, {name: n, **flags}) if making else caller for n in (2, 3))
        first, second = (Way(guess, values={} if making else {name: n}) for n in (2, 3))
        if one is None or two is None:
            continue
        seen, a, b = guess, one.ask([first])[0], two.ask([second])[0]
        if a.failed or b.failed:
            # Windows that are blocks too divide the positions.
            seen = guess.sized(T=_LONG, S=_LONG)
            a, b = (who.ask([replace(way, guess=seen)])[0] for who, way in ((one, first), (two, second)))
        if not differ(a, b):
            # It is no window, or fails.
            continue
        band, wider = reach(one, seen, first.values), reach(two, seen, second.values)
        for side, further in ((band.back, wider.back), (band.ahead, wider.ahead)):
            # Where later keys are seen anyhow, no window lets them in.
            led = side is band.ahead and "causal_off_by_one" in findings.found
            if side is not None and further == side + 1 and not led:
                _counted(caller, name, 2, side, band.line or facts.get("mask made"), findings)
                break
        else:
            extra = {"record": caller.face.intents}
            few, more = (who.ask([Way(seen, values=way.values, extra=extra)])[0].judged.get("facts", {})
                         for who, way in ((one, first), (two, second)))  # fmt: skip
            first, last = few.get("side by side", (0, 0))
            keys, itself = last - first + 1, caller.face.counts_itself(name.rpartition(".")[2])[0]
            if itself and keys > 2 and more.get("side by side") == [first - 1, last]:
                # What lets later keys in is a place, or counts what there is.  Whether its own key is among those that
                # one query sees, nobody knows; they are more than it counts.
                _counted(caller, name, 2, keys - 1, few.get("mask made"), findings)


def _counted(caller: Caller, name: str, window: int, back: int, line: int | None, findings: Findings) -> None:
    """Keys before a query that it sees, where so many are said to be in its window, with it or besides."""
    with_self, besides = caller.face.counts_itself(name.rpartition(".")[2])
    counted = back == window - 1
    findings.convention["window"] = "the query is counted" if counted else "the query is not counted"
    if (not counted and back != window) or (counted != with_self and with_self != besides):
        findings.add("window_off_by_one", line=line)
    elif counted and not with_self:
        findings.add("window_off_by_one", kind="convention", line=line)


def _lengths(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Values that are fewer than keys, where both are given."""
    given = caller.arrays(guess)
    found = values_in(given, facts)
    if found is None or not facts.get("keys and values"):
        return
    mine, axis = found
    array = given[mine]
    short = np.take(array, range(array.shape[axis] - 2), axis)
    plain, other = caller.ask([Way(guess), replace(Way(guess), arrays={mine: short})])
    if plain.outputs and other.outputs and not other.failed and plain.outputs[0].shape == other.outputs[0].shape:
        keys = array.shape[axis]
        findings.add("kv_len_mismatch", kind="risk", example={"input": f"{keys} keys, {keys - 2} values"})


def _first_ones(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Whether the first positions alone come to something else where what is added to scores tells where keys are.

    No position sees what comes after it, so that a distance is one wherever a sequence ends.
    """
    n, some = guess.lengths, max(guess.lengths.T - _FEWER, 2)
    if (
        findings.wrong
        or facts.get("causal") != 0
        or "term" not in facts
        or (n.T != n.S and any("S" in calls.axes_of(kind) for _, kind in guess.kinds))
        or some >= n.T
        or n.T in (n.B, n.H)
    ):
        return
    fewer, kinds = guess.sized(T=some, S=some), guess.by_name
    moving = [name for name in caller.arrays(guess) if {"T", "S"} & {*calls.axes_of(kinds[name])}]
    if len({kinds[name].replace("S", "T") for name in moving}) > 1:
        # Of a table that is given, the last rows may be those of the nearest.
        return
    first = {
        name: x[tuple(slice(some if a in ("T", "S") else None) for a in calls.axes_of(kinds[name]))]
        for name, x in caller.arrays(guess).items()
        if {"T", "S"} & {*calls.axes_of(kinds[name])}
    }
    # What has no positions, such as slopes, stays as it is.
    drawn = caller.arrays(fewer)
    first |= {name: x for name, x in caller.arrays(guess).items()
              if name not in first and name in drawn and drawn[name].shape == x.shape}  # fmt: skip
    # What counts those of each counts of these as many as there are.
    counts = (name for name, kind in kinds.items() if kind in ("lengths", calls.SHORTER))
    first |= {name: np.minimum(caller.arrays(guess)[name], some) for name in counts if name in caller.arrays(guess)}
    # What is made as long as it is stays as long.
    made = {path[0] for path, kind in guess.kinds if kind[:3] == "by "}
    long = {".".join(path): n.T for path, kind in guess.kinds if kind == "length" and path[0] in made}
    whole, alone = caller.ask([Way(guess), Way(fewer, arrays=first, values=long)])
    if whole.failed or alone.failed or not (whole.outputs and alone.outputs):
        return
    cut = [slice(b if (a, b) == (n.T, some) else None)
           for a, b in zip(whole.outputs[0].shape, alone.outputs[0].shape, strict=False)]  # fmt: skip
    if differ(replace(whole, outputs=[whole.outputs[0][tuple(cut)]]), alone):
        says = (
            f"The first {some} of {n.T} positions come to something else than these alone, though none sees what "
            "follows: what is added for a distance goes with the length."
        )
        findings.add("unknown", message=says, line=facts["term made"])


def _sees_only_earlier(caller: Caller, guess: Guess, plain: Answer, attended: Sequence[str]) -> bool:
    """Whether the last key changes the last query alone, as where both belong to one sequence."""
    kinds, given = guess.by_name, caller.arrays(guess)
    changed = {}
    for name in attended:
        changed[name] = x = given[name].copy()
        x[(slice(None),) * calls.axes_of(kinds[name]).index("S") + (-1,)] *= 2
    other = caller.ask([Way(guess, arrays=changed)])[0]
    if other.failed or not (plain.outputs and other.outputs) or plain.outputs[0].shape != other.outputs[0].shape:
        return False
    off = ~np.isclose(plain.outputs[0], other.outputs[0])
    along = [off.any(tuple({*range(off.ndim)} - {axis})) for axis, n in enumerate(off.shape) if n == guess.lengths.T]
    return any(x[-1] and not x[:-1].any() for x in along)


def _one_length(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Whether it fails with more keys than queries, or fewer, where these are given by themselves."""
    names, asked = list(caller.arrays(guess)), facts.get("asked by others", ())
    kinds = {".".join(path): (path, kind) for path, kind in guess.kinds}
    # Samples may be taken for positions.
    own = {"hidden", "causal", "bias", "term", "additive", "rotation"} & set(facts) or facts.get(
        "queries"
    ) != guess.lengths.T
    works = guess.lengths.T != guess.lengths.S and any("S" in kinds[name][1] for name in names)
    # What is documented with one length has one, but where it is said to ask another sequence.
    one = caller.face.one_length or (guess.told and "cross" not in caller.face.name.lower() + caller.face.prose)
    # What an encoder made has a length of its own, whichever of several attentions asks it; so has what is documented
    # with another letter.
    laid = shapes(caller.face.shaped, names) if guess.told else {}
    encoded = [
        n
        for n, name in enumerate(names)
        if "S" in kinds[name][1]
        and (((name,) in laid and "additive" not in facts) or re.search(r"encode[rd]|enc(_|$)|memor", name))
    ]
    asked, own, one = (encoded, False, False) if encoded and len(names) > 1 else (asked, own, one)
    if not asked or max(asked) >= len(names) or own or works or one:
        return
    # Beside the queries, nothing else that has positions may be what does not fit.
    others = [name for n, name in enumerate(names) if n not in asked and set(kinds[name][1]) & set("TS")]
    if len(others) > 1 or any(not calls.is_floats(kinds[name][1]) for name in names):
        return
    for name in (names[n] for n in asked):
        path, kind = kinds[name]
        guess = guess.given(path, kind.replace("T", "S"))
    for name in others:
        # What asks may have been taken for what is asked.
        path, kind = kinds[name]
        guess = guess.given(path, kind.replace("S", "T"))
    sizes = ((5, 5), (7, 7), (5, 7), (7, 5))
    ways = [Way(guess.sized(T=T, S=S)) for T, S in sizes]
    first, second, more, fewer = caller.ask(ways)
    # What raises by itself where they are not as many tells so.
    if not first.failed and not second.failed and fewer.failed and more.failed and not more.reply["error"]["guarded"]:
        if _sees_only_earlier(caller, ways[0].guess, first, [names[n] for n in asked]):
            return
        led = more.reply["error"]["lines"]
        findings.add("cross_wrong_length", line=failed_at(str(caller.face.description["file"]), led) if led else None)
