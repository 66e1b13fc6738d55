"""The calls that names, annotations, documentation and the module itself suggest, the likelier first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, permutations, product
from operator import itemgetter

from overt.check.calls.call import (
    DEGREE,
    EACH,
    FUNCTIONS,
    HOLDERS,
    OTHERS,
    OWN,
    PLAIN,
    ROWS,
    VALUES,
    Guess,
    Lengths,
    axes_of,
    is_floats,
    is_mask,
    with_axes,
)
from overt.check.calls.lettering import lettered, one_by_one, roomy
from overt.check.calls.likely import FAMILIES, LABEL, LETTERS, SUGGESTED, turns_in
from overt.check.calls.sides import longer, sided
from overt.check.calls.supplied import NUMBERS, Supplied, keeps
from overt.check.calls.trees import TREES
from overt.check.text import shapes
from overt.check.text.comments import behind
from overt.check.text.handed import handed
from overt.check.text.reading import contracted
from overt.check.text.roles import INPUTS, Argument, constructor_role, role
from overt.check.text.shapes import Path, layout_of, unpacked

# Ways to give numbers to a constructor.
_WAYS = 40
# Calls of which arguments are replaced by what the module makes, and small models before large ones: one batch.
_BASES = len(FAMILIES)
# The same where one array asks another: a state and a memory.
_PAIRS = (
    ("BTW", "BSW"), ("BW", "BSW"), ("1BW", "BSW"), ("1BW", "SBW"), ("BW", "SBW"), ("TW", "SW"), ("W", "SW"),
    ("BHTD", "BGSD"), ("BW", "BSU"),
)  # fmt: skip
# Widths of an instance that an axis may have.
_WIDTHS = 3
# As wide as models are that are used.
_REAL = 768
# Layouts that are tried first where they are named: others run in their place.
_NAMED = ("THD", "HTD", "TBD", "BTHD")
# What is said of these by their names is a number.
_COUNTS = ("number of heads", "number of key heads", "width of a head")
# What is asked.
_ASKED = ("k", "v", "context")
# What the ends of a graph's edges are.
_ENDS = ("edges", "sources", "targets")


# The words of a name that say that something is keys, and what says so of their values.
_KEYS = re.compile(r"(?<![a-z])(k|key)(?=s?(?![a-z]))", re.IGNORECASE)


def _values_of(key: re.Match[str]) -> str:
    word = "v" if len(key[0]) == 1 else "value"
    return word.upper() if key[0].isupper() else word


@dataclass
class Suggestions(Supplied):
    """Calls of a function, an instance or a constructor, the likelier first."""

    def _first(self) -> Iterator[Guess]:
        """One guess a family and a size, with the roles that names suggest; nameless arrays are inputs in order."""
        required = [a for a in self.interface.arguments if a.required]
        told = {a.name: self.told(a) for a in required}
        unknown = [name for name, kind in told.items() if kind is None]
        if self.makes:
            small = self._smaller()
            yield from islice(self._numbers(told | small), _BASES) if small else ()
            # What is as large as a real model takes all memory, where a small one will do.
            yield from () if small and any(tried.error is None for tried in self.tried) else self._numbers(told)
            return
        inputs = {1: ("x",), 2: ("q", "context"), 3: ("q", "k", "v")}.get(len(unknown), ("q", "k", "v", "x"))
        if "q" in told.values():
            # What is remembered may be projected already, and have more beside it.
            inputs = ("context",) if len(unknown) == 1 or "context" in told.values() else ("k", "v", "x")
        elif len(unknown) == 1 and "x" in told.values() and ("context" in told.values() or self._unlike(*unknown)):
            # Beside what asks stands what is asked, and what that has to say.
            inputs = ("context",)
        roles = {name: inputs[min(n, len(inputs) - 1)] for n, name in enumerate(unknown)}
        each = {a.name for a in required if a.each}
        if each & {*unknown}:
            # What is kept one by one is asked later.
            kept = [name for name in unknown if name in each]
            asking = [name for name in unknown if name not in each]
            roles = {name: ("k", "v")[min(n, 1)] if len(kept) > 1 else "context" for n, name in enumerate(kept)}
            roles |= {name: ("q", "x")[min(n, 1)] for n, name in enumerate(asking)}
        asked = {told[a.name] or roles[a.name] for a in required}
        inputs_told = bool({*FAMILIES[0]} & {*told.values()})
        # Where one array asks another, what is called values is more likely a parameter.
        pairs = [{"q": one, "x": one, "context": two, "v": "W"} for one, two in _PAIRS]
        families: Sequence[dict[str, str]] = self.families
        if self.interface.description["kind"] != "function" and "q" in asked:
            # An instance splits heads by itself.
            families = sorted(families, key=lambda family: "H" in family["q"])
        if asked & {*_ENDS}:
            # The nodes of a graph have no samples.
            families = sorted(families, key=lambda family: "B" in family["x"])
        if self.interface.description["kind"] == "function":
            # What a shape is unpacked into are words for its axes.
            named = map(layout_of, unpacked(self.interface.description["source"]))
            families = [*(_laid(layout) for layout in named if layout in _NAMED), *families]
        if "--layout" in self.interface.overrides:
            families = [_laid(self.interface.overrides["--layout"])]
        if "context" in asked and "k" not in asked:
            families = [*FAMILIES, *pairs] if "x" in asked else pairs
        if "pages" in asked:
            families = [{"q": "BHD", "k": "npGD", "v": "npGD", "x": "npGD", "context": "npGD"}, *FAMILIES]
        met = self.interface.read.behind - self.interface.read.before
        turned = any((role(path[-1]) or "")[:1] == "W" or len(path) > 1 for path in self.interface.read.before)
        if turned and met & {(a.name,) for a in required if told[a.name] in (None, *FAMILIES[0])}:
            # What matrices stand in front of has a column for each position.
            families = [{"q": "WT", "x": "WT", "k": "WS", "v": "WS", "context": "WS"}, *families]
        if each:
            # Of what is kept one by one, each is a vector.
            families = [{"q": "W", "x": "W", "k": "W", "v": "W", "context": "W"}, *families]
        # What has as many axes as its shape is taken apart into comes first; keys that all samples share have none for
        # these.
        ranks = [(told[a.name] or roles[a.name], self.interface.read.ranks.get((a.name,), set())) for a in required]
        fewer = {n for kind, some in ranks for n in some if kind in _ASKED}
        shared = [family | {kind: laid[1:] for kind, laid in family.items()
                            if kind in _ASKED and laid[0] == "B" and len(laid) == n + 1}
                  for n in fewer for family in families]  # fmt: skip
        fits = [(kind, some) for kind, some in ranks if some and kind in FAMILIES[0]]
        families = sorted(
            [*families, *shared], key=lambda family: sum(len(family.get(k, "")) not in n for k, n in fits)
        )
        # What takes half precision alone says so at its first line.
        first = [(lengths, self.dtypes[0]) for lengths in self.ladder[:2]]
        for lengths, dtype in [*first, *((self.ladder[0], narrow) for narrow in self.dtypes[-1:])]:
            for family in families:
                if family["q"] == "NHD" and (lengths, dtype) == first[0] and "bounds" not in asked:
                    # Heads would pass for positions where as many keys as queries are wanted.
                    continue
                guess = Guess((), lengths, dtype)
                states = any(family.get(told[a.name] or roles[a.name]) == "BW" for a in required)
                for a in required:
                    kind = told[a.name] or roles[a.name]
                    # Of one row of tokens, what is packed into it has several.
                    kind = "bounds in T" if kind == "bounds" and family["x"] == "TW" else kind
                    # What one state of each sample may see is no matter of queries.
                    kind = "mask (B, S)" if kind == "mask (T, S)" and states else kind
                    guess = guess.given((a.name,), family.get(kind, kind))
                if asked & {*_ENDS} and (beside := unknown[not inputs_told :]):
                    # Beside nodes and the ends of edges there may be what is known of each edge.
                    edges = replace(guess, lengths=lengths.resized("i", DEGREE * lengths.T))
                    for name in beside:
                        edges = edges.given((name,), "iW")
                    yield edges
                yield guess
            spared = [
                a.name for a in required if a.role in ("mask", "padding") and (a.name,) in self.interface.read.spared
            ]
            for family in families if spared and (lengths, dtype) == first[0] else ():
                # What hides need not be there, though it must be said so.
                guess = Guess((), lengths, dtype)
                for a in required:
                    kind = told[a.name] or roles[a.name]
                    guess = guess.given((a.name,), "None" if a.name in spared else family.get(kind, kind))
                yield guess
        given = [a for a in required if not self.absent(a)]
        arrays = [a.name for a in given if told[a.name] not in (*OTHERS, *FUNCTIONS, *HOLDERS)]
        if len(arrays) > 2:
            # A state, the states that it asks, and what both are multiplied with, at last a vector or both together.
            for last, (one, two) in product(("W", "WW", "UW", "W1"), (("BW", "BSW"), ("BTW", "BSW"), ("TW", "SW"))):
                taken = dict(zip(arrays, (one, two, *["WW"] * (len(arrays) - 3), last), strict=True))
                guess = Guess((), self.ladder[0], self.dtypes[0])
                for a in required:
                    guess = guess.given((a.name,), taken.get(a.name) or told[a.name] or "")
                yield guess
        if len(required) == 3 and "context" in asked and "k" not in asked:
            # One token or vector, a state, and what it asks.
            tokens = ("below 4: B1", "below 4: B", "BW", "B1W", "below 4: 1B", "1BW")
            for some in product(tokens, ("1BW", "BW"), ("BSW", "SBW")):
                yield Guess(tuple(((a.name,), kind) for a, kind in zip(required, some, strict=True)), self.ladder[0])
        if len(arrays) > 2 and re.search(r"\b(LSTM|GRU|RNN)(Cell)?\(", self.interface.whole):
            # A step of a recurrent network: a token or vector, states, and what is asked, wherever it stands.
            for token, state, memory, keys in product(
                ("below 4: B", "BW", "below 4: B1", "B1W"), ("BW", "1BW"), arrays[:0:-1], ("BSW", "SBW")
            ):
                laid = dict.fromkeys(arrays, state) | {arrays[0]: token, memory: keys}
                guess = Guess((), self.ladder[0], self.dtypes[0])
                for a in required:
                    guess = guess.given((a.name,), laid.get(a.name) or told[a.name] or "")
                yield guess
        if len(required) > 3:
            # Whatever they are called: one input, and what it is multiplied with; the last may be a number.
            for one, (others, end) in product(("TW", "BTW"), product((("WW", "WW"), ("WHD", "HDW")), (True, False))):
                kinds = [one, *(others[:1] * (len(required) - 2 - end)), others[1], *(["number of heads"] * end)]
                guess = Guess((), self.ladder[0], self.dtypes[0])
                for a, kind in zip(required, kinds, strict=True):
                    guess = guess.given((a.name,), kind)
                yield guess

    def _smaller(self) -> dict[str, str | None]:
        """Few layers, and widths and heads as elsewhere, for what makes a model as large as a real one."""
        sizes = {a.name: (constructor_role(a.name), a.default) for a in self.interface.arguments
                 if not a.required and type(a.default) is int}  # fmt: skip
        layers = any(role == "layers" and n > 2 for role, n in sizes.values())
        large = any(role == "model_dim" and n >= _REAL for role, n in sizes.values())
        return {name: SUGGESTED[role] for name, (role, n) in sizes.items()
                if layers and large and role in ("layers", "heads", "model_dim") and n > 2}  # fmt: skip

    def _unlike(self, name: str) -> bool:
        """Whether the shape of something is taken apart into fewer axes than that of all inputs."""
        ranks = self.interface.read.ranks
        inputs = [n for a in self.interface.arguments if a.role == "x" for n in ranks.get((a.name,), ())]
        return bool(inputs) and max(ranks.get((name,), {max(inputs)})) < min(inputs)

    def _supplied(self) -> Iterator[Guess]:
        """Calls in which arguments are what functions and classes of the module make."""
        makers = self.interface.makers
        if not makers:
            return
        for number in range(max(map(len, makers.values()))):
            for guess in islice(chain(self._documented(), self._first()), _BASES):
                for name, some in makers.items():
                    listed = name in self.interface.read.listed
                    places: list[Path] = [(name, "0"), (name, "1")] if listed else [(name,)]
                    if (name,) in dict(guess.kinds):
                        guess = guess.given((name,), "2 of them") if listed else guess
                        for place in places:
                            guess = self._by(guess, place, some[min(number, len(some) - 1)], 0)
                # What it keeps keys and values of by their names is asked for one after the other.
                for path in self.interface.read.indices:
                    if path[1:] == ("0",) and any(map(keeps, chain(*makers.values()))):
                        guess = guess.given(path[:1], EACH + guess.first[:1])
                # What is called inside may be as wide as a head.
                inner = [path for path, kind in guess.kinds if len(path) > 1 and kind == "width of all"
                         and any("takes" in m for m in makers.get(path[0], ()))]  # fmt: skip
                yield guess
                for path in inner:
                    guess = guess.given(path, "width of a head")
                if inner:
                    yield guess
                yield self._by_itself(guess)

    def _documented(self) -> Iterator[Guess]:
        """The shapes that documentation gives, at last with nothing in what the candidate fills by itself."""
        asked = self.interface.read
        empty = {path: kind for path, kind in asked.ends.items()
                 if not any(asked.filled(path[:end]) for end in range(1, len(path)))}  # fmt: skip
        for ends in (asked.ends, empty)[: 1 + (len(empty) < len(asked.ends))]:
            yield from self._holding(ends)

    def _holding(self, ends_of: Mapping[Path, str]) -> Iterator[Guess]:
        """Shapes in two dtypes; what has none is what its name suggests.  ends_of: what lies in arguments."""
        required = [a for a in self.interface.arguments if a.required]
        if "--layout" in self.interface.overrides:
            return
        names, one = [a.name for a in required], {a.name: a for a in required}
        source, asked = self.interface.description["source"], self.interface.read
        fields = dict.fromkeys(m["source"] for some in self.interface.makers.values() for m in some if m["class"])
        text = "\n".join([self.interface.shaped, *map(behind, fields)])
        ends: set[Path] = {(a.name,) for a in required if self.told(a) in _ENDS}
        ends |= {path for path in ends_of if len(path) > 1 and self._ends(path)}
        # The two ends of edges may be taken apart as a list is.
        held = {path: kind for path, kind in ends_of.items() if path[0] in names and not {path[:1], path[:-1]} & ends}
        told = shapes.shapes(text, names, held, alone=not self.makes)
        # What is said of nothing here may be documented where it is handed to.
        method = self.interface.description["method"] or self.interface.name
        module = self.interface.description.get("told", "")
        both = {**handed(self.interface.whole, method, names, module), **told}
        needed: set[Path] = {(name,) for name in names if self.told(one[name]) not in VALUES}
        told = both if not self.makes and needed <= both.keys() else told
        # What two methods take under one name is documented by that.
        methods = "|".join(map(re.escape, self.interface.description.get("life", "").split(" then ")))
        bare = {name: re.sub(rf"_({methods})$", "", name) for name in names}
        told |= {(name,): told[own,] for name, own in bare.items() if (name,) not in told and (own,) in told}
        # Values are as their keys are where nothing else is said of them.
        keys = {name: _KEYS.sub(_values_of, name) for name in names}
        told |= {(own,): told[name,] for name, own in keys.items()
                 if own in names and own != name and (name,) in told and (own,) not in told}  # fmt: skip
        # What is called heads is their number, and a shape behind that word is something else's.
        told = {path: shape for path, shape in told.items()
                if len(path) > 1 or len(path[0]) == 1 or self.told(one[path[0]]) not in _COUNTS}  # fmt: skip
        told |= {(a.name,): one_by_one(told[a.name,], self.named) for a in required if a.each and (a.name,) in told}
        # What is as wide as the instance, and looked up nowhere, has no words.
        looked = asked.compared | asked.whole | asked.indices | asked.picking | asked.words
        widths = {name for name, n in self.named.items() if n == self.ladder[0].W}
        told |= {path: replace(shape, sort="") for path, shape in told.items()
                 if shape.sort == "whole" and shape.axes[-1] in widths and path not in looked}  # fmt: skip
        hide = [a.name for a in required if is_mask(self.told(a) or "")]
        told |= {(n,): replace(told[n,], sort="mask") for n in hide if (n,) in told and not told[n,].sort}
        # What has two axes, and neither of them is 2, is said of edges, and no ends of theirs.
        ends = {path for path in ends if path in told and (len(told[path].axes) == 1 or "2" in told[path].axes)}
        told |= {path: replace(told[path], sort="ends") for path in ends if told[path].sort in ("", "whole")}
        for path in asked.compared | asked.whole | asked.indices | asked.picking:
            if path in told and not told[path].sort:
                told[path] = replace(told[path], sort="whole")
        # What lies in an argument may be documented by the module alone.
        if lacking := [path for path in held if len(path) == 2 and path not in told]:
            there = shapes.shapes(module, names, held, alone=False)
            told |= {path: there[path] for path in lacking if path in there}
        found = contracted(source, self.interface.whole, names, told)
        # Cosines and sines that have a row for each position are these, whatever their axes are called.
        turning: dict[Path, str] = {(a.name,): kind for a in required if (kind := self.told(a)) in ("cosines", "sines")
                   and len(found[a.name,].axes if (a.name,) in found else ()) == 2}  # fmt: skip
        turning = turning if len(turning) == 2 else {}
        for name in (a.name for a in required if self.makes and turns_in(asked, (a.name,))):
            # They are made before it is, and handed to it together.
            turning |= {(name, n): "cosines" if role(asked.called[name, n]) == "cos" else "sines" for n in "01"} | {
                (name,): "2 of them"
            }
        found = {path: shape for path, shape in found.items() if path not in turning and path not in asked.texts}
        if self.makes:
            # A constructor takes matrices, and dictionaries of them, and numbers without a word on their shape.
            found = {path: shape for path, shape in found.items() if len(shape.axes) > 1 or len(path) > 1}
            held = {path: kind for path, kind in held.items() if kind != "list" and not path[1].isdigit()}
        # What is asked for something by its name has no shape.
        owners = {path[:1] for path, kind in held.items() if kind != "config" or self.makes}
        # But an array may be taken apart as a list is.
        apart = {path[:1] for path in held if len(path) > 2 or held[path] != "list"}
        owners -= {path for path in found if path not in apart and found[path].axes[0] in PLAIN}
        held = {path: kind for path, kind in held.items() if path[:1] in owners or kind == "config"}
        found = {path: shape for path, shape in found.items() if path not in owners}
        if not found and not owners and not turning:
            return
        # What asks has the first letters, and what lies in something the last.
        found = {path: found[path] for path in sorted(found, key=lambda path: (len(path), names.index(path[0])))}
        made = [row for some in self.interface.makers.values() for m in some for row in m["parameters"]]
        # What makes a model as large as a real one makes a small one as well.
        named = {row["name"]: n for row in made if type(n := row["default"]) is int and n < _REAL} | dict(self.named)
        # What is told as a number may be a factor of a length.
        named |= {a.name: 2 for a in required if self.told(a) == "2" and not self.makes}
        whole = r"(?://|%|,? is (?:a )?(?:multiple of|divisible by))"
        shares = {*re.findall(rf"\b([^\W\d]\w*) *{whole} *([^\W\d]\w*)", f"{text}\n{module}\n{source}")}
        # What is asked for a length is documented with a word for it.
        shares |= {(n, found[name,].axes[int(at)])
                   for n, name, at in re.findall(r"\b([^\W\d]\w*) *(?://|%) *(\w+)\.shape\[(\d)\]", source)
                   if (name,) in found and int(at) < len(found[name,].axes)}  # fmt: skip
        ways = [({}, {}, {})] if self.makes else [*sided(found, asked, self.named)]
        for size, (sizes, known, many) in product((self.ladder[0], *self.ladder[3:4]), ways):
            arrays = {path: shape for path, shape in found.items() if path not in sizes}
            start = longer(size, many)
            kinds, lengths = lettered(arrays, start, named | known, makes=self.makes, shares=shares)
            by_word = {axis: letter for path, shape in arrays.items()
                       for axis, letter in zip(shape.axes, axes_of(kinds[path]), strict=False)}  # fmt: skip
            if rooms := roomy(text, {**dict.fromkeys(names, "T"), **by_word}, lengths):
                kinds, lengths = lettered(arrays, start, named | known, makes=self.makes, rooms=rooms, shares=shares)
            kinds |= sizes
            # Positions count up, whatever has their shape; words do not.
            counting = {"T": "positions", "BT": "positions (B, T)", "BS": "positions (B, S)"}
            counting |= {f"below 3: {laid}": kind for laid, kind in counting.items()}
            counted = {a.name for a in required if a.role == "positions"}
            kinds |= {path: counting[laid] for path, laid in kinds.items()
                      if path[0] in counted and path not in asked.words and laid in counting}  # fmt: skip
            if "positions (B, S)" in kinds.values():
                # A query stands where its key does.
                lengths = replace(lengths, S=lengths.T)
            kinds |= {(a.name,): tree for a in required if (tree := self.told(a)) in TREES and tree}
            kinds |= {path: "lengths" for path in asked.lengths if len(path) > 1 and kinds.get(path) == "B"}
            kinds |= turning
            self._found = {*found, *turning}
            self._words = {axis: letter for path, shape in found.items()
                           for axis, letter in zip(shape.axes, axes_of(kinds[path]), strict=False)}  # fmt: skip
            # Beside weights there are weights.
            weights = {path[0]: not set(kind) & set("BTSN") for path, kind in kinds.items() if len(path) > 1}
            # Beside numbers there are numbers.
            numbers = {
                path[0] for path in held if SUGGESTED.get(role(path[-1]) or "") in VALUES and path[-1] not in LETTERS
            }
            params = {a.name for a in required if self.makes or (a.role == "params" and len(required) > 1)} - numbers
            for path in held:
                if path not in kinds and path[:1] not in kinds:
                    name = asked.called.get(path, path[-1])
                    # The q of W is W_q.
                    means = self._means(name) and (role(f"{path[-2]}_{name}") or "")[:1] != "W"
                    alone = path[0] not in numbers and not means and held[path] != "list"
                    among = weights.get(path[0], len(path) > 2 or path[0] in params or alone)
                    among = among and not (self.makes and held[path] == "config") and path not in asked.single
                    told_so = (*path[:-1], name)
                    kinds[path] = self._weight(told_so) if among else self._likely(name, held=path[:-1])[0]
                    if path in asked.labels:
                        kinds[path] = LABEL
                    elif path in asked.packed:
                        kinds[path] = asked.packed[path]
                    elif path in asked.parted:
                        # The states of several layers.
                        kinds[path] = "2BW"
                    elif path in asked.tables:
                        kinds[path] = "UW"
                    elif path in asked.weights and (len(kinds[path]) == 1 or set(kinds[path]) - set("WPDHGK")):
                        some = self._weight(told_so)
                        kinds[path] = some if len(some) == 2 else "WW"
                    elif among and path[-1] == "1" and (*path[:-1], "0") in asked.weights:
                        # The bias beside a matrix.
                        kinds[path] = "W"
                    if (*path, "0") in asked.before:
                        # One matrix for each head, in front of columns.
                        kinds[path] = "HDW"
                    if path in asked.linear - asked.tables:
                        kinds[path] = kinds[path][::-1]
                    deep = asked.depth(path) if self.interface.description["backend"] == "python" else 0
                    if 0 < deep < 3 and len(axes_of(kinds[path])) != deep:
                        # Of lists the code tells how deep they are.
                        kinds[path] = "W" * deep
            # Of several names for what nothing more is asked of, such as h and w, each may be a number.
            lists = {path[:1] for path in held if held[path] == "list" and len(path) == 2}
            sure = {path[:1] for path in held if len(path) > 2 or path in asked.behind | asked.before | asked.parted}
            sure |= {n[:1] for n, name in asked.called.items() if len(name) > 2 or role(name) in ("k", "v")}
            sure |= {path[:1] for path in found if len(path) > 1} | {*sizes}
            kinds = {path: kind for path, kind in kinds.items() if path[:1] not in lists - sure}
            yield from self._completed(required, kinds, lengths)
            # Widths that have words of their own may be one.
            letters = {kind[-1] for kind in kinds.values() if is_floats(kind) and len(kind) > 1}
            own = [letter for letter in letters if letter == "U" or letter in dict(lengths.more)]
            if own and "W" in letters and self.interface.description["kind"] != "function" and not self.makes:
                wide = [n for name, n in self.named.items() if constructor_role(name) in ("model_dim", "att_dim")]
                for width in (lengths.W, *dict.fromkeys(wide[:_WIDTHS])):
                    for letter in own:
                        lengths = lengths.resized(letter, width)
                    yield from self._completed(required, kinds, lengths)
                # Or each another number that it was made with, rather one that is called alike.
                words = [[axis.lower() for axis, one in self._words.items() if one == letter] for letter in ("W", *own)]
                others = {n: name.lower() for name, n in self.named.items() if n > 1}
                ranked = [
                    (-sum(others[n].startswith(tuple(some)) for n, some in zip(way, words, strict=True)), way)
                    for way in islice(permutations(others, len(words)), _WAYS)
                ]
                for _, way in sorted(ranked, key=itemgetter(0)):
                    for letter, n in zip(("W", *own), way, strict=True):
                        lengths = lengths.resized(letter, n)
                    yield from self._completed(required, kinds, lengths)

    def _completed(self, required: Sequence[Argument], kinds: Mapping[Path, str], lengths: Lengths) -> Iterator[Guess]:
        """Calls with these kinds; what has none is what its name suggests, or a number."""
        rest = [a for a in required if not any(path[0] == a.name for path in kinds)]
        guesses = list(islice(self._first(), len(FAMILIES))) if rest else [Guess((), lengths, self.dtypes[0])]
        numbers = ("2", "length", "number of heads", "side", "one token")
        guesses += [Guess(tuple(((a.name,), kind) for a in rest), lengths) for kind in numbers if rest]
        for first, dtype in product(guesses, (self.dtypes[0], *self.dtypes[-1:])):
            guess = Guess((), lengths.beside(first.lengths), dtype)
            for a in required:
                inside = sorted((path for path in kinds if path[0] == a.name and len(path) > 1), key=len)
                told, asks = self.told(a), self.interface.read
                # What is looked up, or has a shape, is no length, whatever axis is called so.
                plain = (a.name,) in asks.whole | asks.indices | asks.sized
                told = told if told in VALUES or (told or "").startswith(OWN) else None
                if inside and not (told or "").startswith(OWN):
                    listed = f"{len(inside)} of them" if all(path[-1].isdigit() for path in inside) else "dictionary"
                    told = self.interface.read.of((a.name,)) or listed
                elif a.role not in INPUTS and not plain and (axis := self._axis(a.name, lengths)) is not None:
                    told = f"length of {axis}"
                # Of nothing there is nothing to see.
                said = self.told(a)
                # Pages are numbers, in which nothing lies, and which heads have in common.
                # What has a number for each edge counts nothing, whatever it is called.
                edged = {*_ENDS} & {*kinds.values()} and kinds.get((a.name,)) in dict(lengths.more)
                # What has a shape is no text.
                text = said == LABEL and (a.name,) not in kinds
                alone = (
                    (said in ("bounds", "lengths") and not edged)
                    or text
                    or (said == "pages" and not inside and "H" not in axes_of(kinds.get((a.name,), "")))
                )
                known = said if alone or self.absent(a) else kinds.get((a.name,), told)
                if known is None and a.role is None and len(kinds) > 1 and (a.name,) in self.interface.read.weights:
                    # Beside several arrays that are documented, what these are multiplied with is no other one.
                    known = self._weight(("w", a.name))
                    self._found.add((a.name,))
                kind = known or dict(first.kinds)[a.name,]
                if kind == "bounds" and "T" in [axes_of(k)[0] for k in kinds.values() if axes_of(k)]:
                    # Of one row of tokens, what is packed into it has several.
                    kind = "bounds in T"
                if a.each and kind == "W":
                    # What is kept one by one is as wide as what asks.
                    kind = next((k for k in kinds.values() if len(axes_of(k)) == 1), kind)
                if kind[:6] == "mask (" and self.interface.declared_mask() == "additive":
                    kind = f"added {kind[5:]}"
                guess = guess.given((a.name,), kind)
                for path in inside if not kind.startswith(OWN) else ():
                    for end in range(2, len(path)):
                        holder = self.interface.read.of(path[:end]) or "dictionary"
                        if dict(guess.kinds).get(path[:end]) != holder:
                            guess = guess.given(path[:end], holder)
                    guess = guess.given(path, kinds[path])
            arrays = [path for path, kind in guess.kinds if is_floats(kind)]
            if not any("S" in axes_of(kind) for _, kind in guess.kinds if not is_mask(kind)):
                # A mask is that of a sequence with itself.
                guess = guess.sized(S=guess.lengths.T)
            guess = replace(guess, told=bool(arrays) and all(path in self._found for path in arrays))
            # What is remembered may lie in as many dictionaries, with what each is called by, or asked by.
            kept = {path[:-2] for path in asks.held if len(path) > 2 and path[-2] == "0"
                    and (path in asks.labels or role(asks.called.get(path, path[-1])) in ("k", "v"))}  # fmt: skip
            if some := kept & {path for path, kind in guess.kinds if kind == "1 of them"}:
                # What nothing is said of is a row too.
                rows = {path: with_axes(kind, ("S", kind[-1])) for path, kind in guess.kinds
                        if path[:-2] in some and is_floats(kind) and (len(kind) == 1 or kind == "WW")}  # fmt: skip
                rows |= dict.fromkeys(some, ROWS)
                yield replace(guess, kinds=tuple((path, rows.get(path, kind)) for path, kind in guess.kinds))
            yield guess

    def _numbers(self, told: dict[str, str | None]) -> Iterator[Guess]:
        """Numbers for a constructor: what names suggest, then others, the fewer changes first."""
        some = NUMBERS[: 5 if len(told) < 4 else 3]
        choices = []
        # What is said to be less than another one, as a shift is than its window, and would not be.
        said = self.interface.described + self.interface.description.get("told", "")
        sizes = {name: VALUES[kind](self.ladder[0]) for name, kind in told.items() if kind in VALUES}
        less = {
            one
            for one, other in re.findall(r"(?=\b(\w+) ?(?:<|(?:is |must be )?(?:less|smaller) than) ?`*(\w+))", said)
            if {one, other} <= {*told} and other in sizes and not sizes.get(one, sizes[other]) < sizes[other]
        }
        for number, (name, own) in enumerate(told.items()):
            kind = "1" if name in less else own
            rest = [*some[number % len(some) :], *some[: number % len(some)]]
            if len(told) < 3:
                # Of more, several are widths.
                rest.sort(key=lambda k: k in told.values())
            choices.append(list(dict.fromkeys([kind, *rest] if kind else rest)))
        ways = sorted(islice(product(*(range(len(c)) for c in choices)), 4096), key=lambda way: (sum(way), way))
        for number, way in enumerate(ways[:_WAYS]):
            kinds = [choice[n] for choice, n in zip(choices, way, strict=True)]
            for lengths in self.ladder if not number else self.ladder[:1]:
                guess = Guess((), lengths, self.dtypes[0])
                for name, kind in zip(told, kinds, strict=True):
                    guess = guess.given((name,), kind)
                yield guess


def _laid(layout: str) -> dict[str, str]:
    """The kinds of inputs in a layout such as BHTD."""
    query = layout if "H" in layout else layout.replace("D", "W")
    key = query.replace("T", "S").replace("H", "G")
    return {"q": query, "k": key, "v": key, "x": query, "context": key}
