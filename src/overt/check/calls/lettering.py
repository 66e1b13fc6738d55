"""Documented shapes as kinds of arrays: a letter for each word, and the length that it has."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from overt.check.calls.call import DEGREE, EACH_CALL, PLAIN, Lengths
from overt.check.text import shapes
from overt.check.text.roles import constructor_role, role
from overt.check.text.shapes import AXIS_WORDS, Path, Shape

# No length of a documented call, or of one like it, is longer.
_ROOM = 16


def lettered(
    found: Mapping[Path, Shape],
    lengths: Lengths,
    named: Mapping[str, int],
    words: Mapping[str, str] | None = None,
    *,
    makes: bool = False,
    rooms: Mapping[str, int] | None = None,
    shares: Collection[tuple[str, str]] = (),
) -> tuple[dict[Path, str], Lengths]:
    """Documented shapes as kinds: a letter for each word, with the length that its name has, or one of its own.

    words: letters that are known.  makes: whether a constructor takes these.  rooms: axes with lengths of their own.
    shares: axes the first of which is divided by the second.
    """
    letters: dict[str, str] = {EACH_CALL: EACH_CALL} | dict(words or {})
    lengths = replace(lengths, U=lengths.axis("U"))
    spare = shapes.unseen("")
    # What queries and keys do not share are positions, and beside these lie heads, whatever they are called.
    arrays = [shape.axes for shape in found.values() if not shape.sort and len(shape.axes) == 4]
    for one, two in [arrays[:2]] if len(arrays) > 1 and not words else []:
        apart = [place for place in range(4) if one[place] != two[place]]
        if apart in ([1], [2]) and one[3 - apart[0]] not in PLAIN and called(one[apart[0]]) != "H":
            letters |= {one[apart[0]]: "T", two[apart[0]]: "S", one[3 - apart[0]]: "H"}
    # Heads of keys stand where those of queries do.
    for one, two in zip(arrays[:1] * len(arrays), arrays[1:], strict=False) if not words else ():
        apart = [place for place in range(4) if one[place] != two[place]]
        if apart in ([2], [1, 2]) and called(one[2]) == "H":
            letters |= {two[2]: "G"}
    # What is divided by what stands in its place are heads, whatever they are called, and beside them lie positions.
    floats = [shape.axes for shape in found.values() if not shape.sort]
    for own, other in zip(floats[:1] * len(floats), floats[1:], strict=False) if not words else ():
        places = {len(own) - 3, len(own) - 2} if len(own) == len(other) in (3, 4) else set[int]()
        apart = [place for place in range(len(own)) if places and own[place] != other[place]]
        shared = [place for place in apart if (own[place], other[place]) in shares]
        if len(shared) == 1 and places >= {*apart}:
            at = sum(places) - shared[0]
            if called(own[at]) != "B" and own[at] not in (*PLAIN, EACH_CALL):
                letters |= {
                    own[at]: "T",
                    other[at]: "S" if at in apart else "T",
                    own[shared[0]]: "H",
                    other[shared[0]]: "G",
                }
    # What stands in front of all axes of another one are the positions that it asks.
    for own in floats if not words else ():
        asks = len(own) == 3 and own[0] not in (*PLAIN, EACH_CALL) and called(own[0]) != "B" and own[1:] in floats
        if asks and called(own[1]) == "H":
            letters |= {own[0]: "S", own[1]: "H"}
    # Features of all heads between samples and positions: each position is a column.
    for own in floats if not words else ():
        folded = len(own) == 3 and not own[1].isidentifier() and called(own[2]) == "T"
        factors = {name: called(name, named) for name in re.findall(r"[^\W\d]\w*", own[1])} if folded else {}
        if {"H", "D"} == {*factors.values()} and own[2] not in letters:
            within = {name: named.get(name) or lengths.axis(of or "") for name, of in factors.items()}
            letters |= {own[0]: "B", own[1]: (features := next(spare)), own[2]: "T"}
            lengths = lengths.resized(features, shapes.size(own[1], within) or lengths.W)
    sizes = {axis: lengths.axis(letter) for axis, letter in letters.items()} if not words else {}
    # Layers are as many as an instance was made with, and else one.
    layers = next((n for name, n in named.items() if constructor_role(name) == "layers"), 1)
    unlike = iter((6, 9, 11, 13, 10, 14, 15, 17))
    # A graph has an array of edges; elsewhere their letter is a width.
    graph = {s.axes[-1] for s in found.values() if s.sort == "whole" or s.axes[0] == "2" or len(s.axes) == 1}
    # What has an end each is an edge, whatever it is called: an atom of a molecule too.
    ended = {s.axes[-1] for s in found.values() if s.sort == "ends" and len(s.axes) == 1}
    # What is first in some arrays alone are no samples, unless it is called so.
    first = {s.axes[0] for s in found.values() if not s.sort and len(s.axes) > 2}
    # What all of several begin with are samples, where one of them has positions and a width beside it.
    before_all = {shape.axes[0] for shape in found.values()}
    if not words and len(found) > 1 and len(first) == 1 and before_all == first <= {"n", "N"}:
        letters |= dict.fromkeys(first, "B")
    # What is heads where more axes are is that where there are two.
    heading = {*named} | {axis for one in found.values() if len(one.axes) > 2 and not shapes.image(one.axes)
                          for axis in one.axes[:-1] if called(axis) == "H"}  # fmt: skip
    # A width before a number of positions: each is a column, where in nothing it is a row.
    pairs = [_sides(shape) for shape in found.values() if not shape.sort and len(shape.axes) == 2]
    columns = ["D", "T"] in pairs and ["T", "D"] not in pairs
    # Masks have axes that arrays have.
    for path, shape in sorted(found.items(), key=lambda item: item[1].sort in ("mask", "0 and 1")):
        sides = shapes.image(shape.axes)
        # Weights of three axes have heads and a width of each beside the width of all.
        free = [axis for axis in shape.axes if axis not in PLAIN and letters.get(axis) != "W"]
        heads = len(path) > 1 and not shape.sort and len(free) == 2 and "W" in map(letters.get, shape.axes)
        weighs = makes or (len(path) > 1 and (role(path[-1]) or "")[:1] == "W")
        for place, axis in enumerate(shape.axes):
            if axis in letters:
                continue
            edges = axis not in PLAIN and (
                shape.sort == "ends" or axis in ended or (axis in graph and re.fullmatch(shapes.EDGES, axis))
            )
            room = (rooms or {}).get(axis)
            known = room or (DEGREE * lengths.T if edges else shapes.size(axis, {**sizes, **named}))
            taken = set(letters.values())
            letter = axis if axis in PLAIN else _letter(shape, place, sides, taken, len(first) < 2, heading, columns)
            if (
                letter in ("T", "S")
                and place
                and axis == shape.axes[-1]
                and not shape.sort
                and named.get(axis) == lengths.W
            ):
                # What an instance was made as wide as is its width, whatever letter it is.
                letter = letters.get(axis, "W" if "W" not in taken else letter)
            if weighs and letter in ("T", "S") and called(axis) in (None, "D"):
                # Of a matrix, what nothing calls a length is the width of what it meets.
                letter = "W"
            if heads and axis == free[-1] and "D" not in letters.values():
                letter = "D"
            elif heads and axis == free[0]:
                letter = next((one for one in "HG" if one not in letters.values()), letter)
            if letter is None or edges or room or (known is not None and (axis.isdigit() or not axis.isidentifier())):
                letter = axis if axis in PLAIN else next(spare)
                counts = called(axis) is None and constructor_role(axis) == "layers"
                known = known or (layers if counts else next(unlike, 12))
            if known is not None and letter not in PLAIN:
                lengths = lengths.resized(letter, known)
            letters[axis] = letter
            sizes[axis] = lengths.axis(letter)
    if not {"T", "S"} & {*letters.values()} and all(len(shape.axes) < 4 for shape in found.values()):
        # What lies between samples and widths is the sequence, where nothing else can be.
        widths = "WD" if len(floats) == 1 else "W"
        between = {
            axes[1]
            for axes in floats
            if "".join(letters[a] for a in axes) in {f"B{h}{w}" for h in "HG" for w in widths}
        }
        letters |= dict.fromkeys(between, "T") if len(between) == 1 else {}
    kinds: dict[Path, str] = {}
    for path, shape in found.items():
        axes = [letters[axis] for axis in shape.axes]
        # Two of each edge are its ends.
        whole = shape.sort == "whole" or (not shape.sort and len(axes) == 2 and "2" in axes)
        # Where the code says what these are, others of edges are sorts.
        begins, stops = (whole and not ended and re.fullmatch(shapes.EDGES, shape.axes[n]) for n in (0, -1))
        ends = shape.sort == "ends" and len(axes) < 3
        if len(axes) == 2 and (begins or (ends and axes[1] == "2")):
            kinds[path] = "pairs of edges"
        elif stops or ends:
            kinds[path] = "edges" if len(axes) > 1 else "targets" if "sources" in kinds.values() else "sources"
        elif shape.sort in ("mask", "0 and 1"):
            kinds[path] = f"{shape.sort} ({', '.join(axes)})"
        else:
            kinds[path] = "below 3: " * (shape.sort == "whole") + "".join(axes)
    return kinds, lengths


def roomy(text: str, letters: Mapping[str, str], lengths: Lengths) -> dict[str, int]:
    """Axes that are said to hold as many as others together, and are too short for these: ``P + n <= M``.

    letters: those of axes, and those of arguments, which may be numbers.
    """
    found, many = {}, r"((?:\b[^\W\d]\w* ?\+ ?)+[^\W\d]\w*)"
    less = rf"{many} (?:is |are )?(?:<=?|≤|at most|(?:must not|may not|cannot|never) exceeds?) ?([^\W\d]\w*)"
    sums = re.findall(less, text) + [
        pair[::-1] for pair in re.findall(rf"\b([^\W\d]\w*) ?(?:>=?|≥|at least) ?{many}", text)
    ]
    for parts, whole in ((re.findall(r"\w+", small), large) for small, large in sums):
        known = whole in letters and {*parts} <= {*letters}
        if known and sum(lengths.axis(letters[one]) for one in parts) > lengths.axis(letters[whole]):
            found[whole] = _ROOM * len(parts)
    return found


def one_by_one(shape: Shape, named: Collection[str]) -> Shape:
    """The shape of one of several, with an axis for these where none of its own is one of positions."""
    several = "T" in [called(axis, named) for axis in shape.axes]
    return shape if several else replace(shape, axes=(EACH_CALL, *shape.axes))


def called(axis: str, named: Collection[str] = ()) -> str | None:
    """The letter that the word for an axis stands for; of what an instance was made with, a number of heads is one."""
    if axis in named and constructor_role(axis) in ("heads", "groups"):
        return "H"
    return next((letter for letter, words in AXIS_WORDS.items() if re.fullmatch(words, axis.lower())), None)


def _sides(shape: Shape) -> list[str | None]:
    return [called(axis) for axis in shape.axes]


def _letter(
    shape: Shape,
    place: int,
    sides: tuple[int, int] | None,
    taken: set[str],
    samples: bool,
    named: Collection[str],
    columns: bool,
) -> str | None:
    """The letter of an axis by its word and its place, of those that no other word has.

    samples: whether what comes first may be samples without being called so; named: what an instance was made with;
    columns: whether positions may stand last.
    """
    rank = len(shape.axes)
    axis = called(shape.axes[place], named)
    if place == 0 and rank > 2 and shape.axes[0] in ("n", "N"):
        axis = "B" if samples else "T"
    if place == 0 and rank == 3 and shape.axes[0] in ("g", "G") and samples:
        # Graphs, where nothing stands before them.
        axis = "B"
    if axis == "T" and rank > 2 and re.fullmatch(r"(n|num)_?kv", shape.axes[place].lower()):
        # Beside positions, a number of keys and values is that of their heads.
        axis = "H" if any(called(other) == "T" for other in shape.axes if other != shape.axes[place]) else axis
    # Numbers of samples and positions alone are tokens.
    tokens = axis == "T" and rank == 2 and bool(re.fullmatch(AXIS_WORDS["B"], shape.axes[0].lower()))
    likely: tuple[str, ...] = ()
    if columns and rank == 2 and not shape.sort and _sides(shape) == ["D", "T"]:
        likely = ("T", "S") if place else ("W", "U")
    elif sides is not None and place in sides:
        likely = ("h", "w")[sides.index(place) :][:1]
    elif axis == "B" or (samples and place == 0 and rank > 2 and (axis is None or sides is not None)):
        likely = ("B",)
    elif sides is not None:
        likely = ("W", "U")
    elif axis == "H" and (rank > 2 or shape.axes[place] in named) and place < rank - 1:
        likely = ("G", "H") if "kv" in shape.axes[place].lower() else ("H", "G")
    elif axis == "H" and place == 1 == rank - 1 and not shape.axes[0].isidentifier() and not shape.sort:
        # Of a table of so many rows, each head has a column.
        likely = ("H", "G")
    elif place == rank - 1 and not shape.sort and (rank > 1 or axis == "D") and not tokens:
        # Beside key heads stands the width of one.
        kv = r"(n_?|num_?)?(h_?)?kv_?(h|heads)?"
        # What an instance splits into its heads is the width of all.
        own = [called(axis, named) for axis in shape.axes]
        splits = any(constructor_role(name) == "heads" for name in named) and "H" not in own
        headed = any(re.fullmatch(kv, axis.lower()) or (axis in named and letter == "H")
                     for axis, letter in zip(shape.axes, own, strict=True))  # fmt: skip
        heads = (rank > 3 and not splits) or headed
        likely = ("D", "W", "U") if heads and sides is None else ("W", "U")
    elif place == 0 and axis is None and constructor_role(shape.axes[0]) == "layers":
        # A state of each layer stands at no position.
        return None
    elif axis == "T" or place < rank - 1 or shape.sort:
        likely = ("S", "T") if shape.sort in ("mask", "0 and 1") and place == rank - 1 else ("T", "S")
    return next((letter for letter in likely if letter not in taken), None)
