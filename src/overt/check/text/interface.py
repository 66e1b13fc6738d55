"""What names, annotations, comments and documentation say about a candidate's arguments."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from string import ascii_uppercase
from typing import Any

from overt.check.text.promises import Promises
from overt.check.text.ranges import Range, ranges
from overt.check.text.read import Read
from overt.check.text.reading import read
from overt.check.text.roles import Argument, constructor_role, role, settled
from overt.check.text.shapes import Path, layout_of, shapes
from overt.check.text.syntax import dropping

# Methods of NumPy's generators alone.
_DRAWS = {"normal", "standard_normal", "uniform", "integers"}


class Interface(Promises):
    """A callable of the candidate: its arguments with their roles, and its text."""

    def __init__(self, description: dict[str, Any], rows: list[dict[str, Any]], overrides: dict[str, str]) -> None:
        self.description = description
        self.name = description["name"]
        self.overrides = overrides
        # whether it makes an instance
        self.making = rows is description["constructor"]
        self.arguments = settled([Argument(role=overrides.get(row["name"]) or self._role(row), **row) for row in rows])
        if rows is description["parameters"]:
            self.arguments = self._asked()
            # What is made booleans, whatever it is called, says which of something there is.
            flags = {path[0] for path in self.read.flags - self.read.indices - self.read.words if len(path) == 1}
            roles = {a.name: "padding" if a.role is None and a.name in flags else a.role for a in self.arguments}
            # What is divided by before it squashes, and multiplied with behind, caps.
            caps = {path[0] for path in self.read.caps if len(path) == 1}
            roles |= {a.name: "cap" for a in self.arguments if a.role is None and a.name in caps}
            # What is added to hide is a mask, and so is what is called a bias and made booleans.
            roles |= {a.name: "mask" for a in self.arguments
                      if a.role == "bias" and (a.name in flags or self.told_to_hide(a.name))}  # fmt: skip
            roles |= {a.name: "window" for a in self.arguments if roles[a.name] is None and self.told_window(a.name)}
            # And what nothing calls anything, where it is said whom it hides.
            roles |= {a.name: self.told_mask(a.name) for a in self.arguments
                      if roles[a.name] is None and type(a.default) not in (bool, int, float)
                      and not re.search("bool$|int|float|Call", a.annotation)}  # fmt: skip
            self.arguments = [replace(a, role=roles[a.name]) for a in self.arguments]
        elif unnamed := [a.name for a in self.arguments if constructor_role(a.name) is None]:
            # What a constructor takes to drop by says so by its use.
            drops = {*unnamed} & dropping(description["source"])
            self.arguments = [replace(a, role="drop") if a.name in drops else a for a in self.arguments]
        # A generator draws numbers, whatever it is called.
        drawing = {a.name for a in self.arguments
                   if a.role is None and _DRAWS & self.read.methods.get((a.name,), set())}  # fmt: skip
        self.arguments = [replace(a, role="seed") if a.name in drawing else a for a in self.arguments]
        self.by_role = {a.role: a for a in reversed(self.arguments) if a.role}

    def _role(self, row: dict[str, Any]) -> str | None:
        name = row["name"]
        found = role(name) or ("mask" if name in self.description["masks"] else None)
        if (
            found is None
            and re.fullmatch(r"\w+_len(gth)?", name.lower())
            and not re.search("int|float", row["annotation"])
        ):
            return "lengths"
        if (
            found == "mask"
            and name in ("m", "M")
            and re.search(
                rf"\b{name} *@|((k|v|key|value|kv|proj)|\bself\.({'|'.join(self._projections)}))\({name}\)"
                rf"|einsum\([^()]*\b{name}\b",
                self.code,
            )
        ):
            # The memory, which is projected.
            return "context"
        return found

    @property
    def _projections(self) -> list[str]:
        """The layers of an instance that multiply what they are given with a matrix."""
        return re.findall(r"\bself\.(\w+) *= *(?:\w+\.)*(?:\w*Linear|Dense)\(", self.description["source"]) or [r"(?!)"]

    def _asked(self) -> list[Argument]:
        """The arguments, where x and a context trade places if the code makes its query of the context."""
        found = {a.role: a.name for a in self.arguments if a.role in ("x", "context")}
        if len(found) < 2 or any(a.name in self.overrides for a in self.arguments):
            return self.arguments
        lines = re.findall(r"^\s*(q|k|v)\w* *= *(.*)$", self.code, re.MULTILINE | re.IGNORECASE)

        def made(letters: str, role: str) -> bool:
            return any(re.search(rf"\b{found[role]}\b", text) for letter, text in lines if letter.lower() in letters)

        if made("q", "x") or made("kv", "context") or not (made("q", "context") and made("kv", "x")):
            return self.arguments
        trade = {"x": "context", "context": "x"}
        return [replace(a, role=trade.get(a.role or "", a.role)) for a in self.arguments]

    @cached_property
    def read(self) -> Read:
        """What its code asks of its arguments."""
        return read(self.whole, [a.name for a in self.arguments])

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Where its documentation says that the numbers of arguments lie."""
        return ranges(self.shaped, [a.name for a in self.arguments])

    @cached_property
    def single(self) -> set[str]:
        """What has a range by its documentation, and no shape: numbers."""
        return {*self.ranges} - {path[0] for path in shapes(self.shaped, [a.name for a in self.arguments])}

    def allows(self, path: Path, value: Any) -> bool:
        """Whether a number lies where the documentation says that it does, where it says so."""
        told = self.ranges[path[0]] if len(path) == 1 and path[0] in self.single else None
        return told is None or type(value) not in (int, float) or told.holds(value)

    @cached_property
    def whole(self) -> str:
        """Its source, and that of what it is built on and calls in its module."""
        return str(self.description["source"] + "\n" + self.description.get("reached", ""))

    @cached_property
    def configs(self) -> dict[str, int]:
        """For arguments that are asked for attributes, the number of an object of the module that has them all."""
        asked: dict[str, set[str]] = {}
        for path, kind in self.read.held.items():
            if kind == "config":
                asked.setdefault(path[0], set()).add(path[1])
        own = [set(one["names"]) for one in self.description["configs"]]
        classes = [one["class"] for one in self.description["configs"]]
        # What may be left out, and is such an object then.
        left = {a.name: n for a in self.arguments if not a.required and a.default is None
                for n, name in enumerate(classes) if re.search(rf"\b{name}\b", a.annotation)}  # fmt: skip
        return left | {name: next(n for n, names in enumerate(own) if wanted <= names)
                       for name, wanted in asked.items() if any(wanted <= names for names in own)}  # fmt: skip

    @cached_property
    def makers(self) -> dict[str, list[dict[str, Any]]]:
        """For arguments that hold others, what of the module may make them: what has, or names, all that is asked."""
        asked: dict[str, set[str]] = {a.name: set() for a in self.arguments}
        for path, kind in self.read.held.items():
            # Of a list, what lies in its elements is asked for.
            names = [name for name in path[1:] if not name.isdigit()]
            asked[path[0]] |= {*names[:1]} if kind != "list" else set()
        found = {}
        told = shapes(self.shaped, [a.name for a in self.arguments])
        # Capitals are sizes, and so is what the documentation calls an axis; letters may be arrays too.
        sizes = {axis for shape in told.values() for axis in shape.axes if len(axis) > 1} | {*ascii_uppercase}
        # Methods of what is yet to be made make nothing for it.
        making = self.making or self.description["kind"] == "function"
        makers = [m for m in self.description["makers"] if m["name"][0] != "." or not making]
        for a in self.arguments:
            wanted = asked[a.name]
            all_asked = wanted | self.read.methods.get((a.name,), set())
            classes = [m for m in makers if m["class"] and (
                re.search(rf"\b{m['name']}\b", a.annotation)
                or (all_asked and _names(m, all_asked)))]  # fmt: skip
            named = {m["name"] for m in classes}
            made = [m for m in makers if not m["class"] and (
                named & set(m["words"]) or (len(wanted) > 1 and _names(m, wanted)))]  # fmt: skip
            # What is called like it is made for it.
            alike = [m for m in makers
                     if (a.name.rstrip("s") or a.name) in re.split(r"s?(?:[._]|$)", m["name"])]  # fmt: skip
            # And so is what is taken apart as that was put together.
            alike += [m for m in makers if m["name"] == f".{self.description.get('handed', {}).get(a.name)}"]
            made += [m for m in alike if m["name"][0] == "." and m not in made]
            made.sort(key=lambda m: m not in alike)
            # What asks for the same, or for other arrays, is no maker.
            made = [m for m in made if not any(row["name"] == a.name or role(row["name"]) in ("x", "q", "v", "cache")
                                               for row in m["parameters"] if row["name"] not in sizes)]  # fmt: skip
            if not wanted and not classes and a.role == "params" and a.required:
                # Whoever draws numbers makes weights, and needs no array for that.
                arrays = {b.name for b in self.arguments if b.required and b.role != "config" and not asked[b.name]}
                made = [m for m in makers if not m["class"] and "seed" in {
                    one.role for one in settled([Argument(role=role(row["name"]), **row) for row in m["parameters"]])
                } and not arrays & {row["name"] for row in m["parameters"]}]  # fmt: skip
            # Of what is a layer of the module something is called.
            layers = [m for m in self.description.get("modules", ()) if all_asked > wanted and len(all_asked) > 1
                      and _names(m, all_asked)]  # fmt: skip
            classes += [m for m in (*layers, *self._called(a.name)) if m["name"] not in named]
            if a.name not in self.configs and (classes or made):
                found[a.name] = [*made, *classes]
        return found

    def _called(self, name: str) -> list[dict[str, Any]]:
        """Classes of the module whose instances take what an argument is called with, the likest names first."""
        given, named = self.read.applied.get(name, ([], []))

        def alike(takes: list[dict[str, Any]]) -> int:
            pairs = zip(given, (row["name"] for row in takes), strict=False)
            return sum(one == two or role(one) == role(two) is not None for one, two in pairs) + len(named)

        found = []
        for module in self.description.get("modules", ()) if given or named else ():
            takes = module["takes"]
            needed = sum(row["required"] for row in takes)
            many = len(given) + len(named)
            fits = needed <= many <= len(takes) and {*named} <= {row["name"] for row in takes}
            # What is given one thing alone has the name of its class, or of several of it.
            named_so = name.lower() in (module["name"].lower(), module["name"].lower() + "s")
            if fits and (2 * alike(takes) > many > 1 or named_so):
                found.append(module)
        return sorted(found, key=lambda module: -alike(module["takes"]))

    @cached_property
    def text(self) -> str:
        """Source and documentation."""
        return self.description["source"] + "\n" + self.description["doc"]

    @cached_property
    def layouts(self) -> list[str]:
        """Layouts that comments, unpacked shapes, annotations and einsum letters name, most telling first."""
        found = list(self.told_layouts)
        text = self.text + " " + " ".join(a.annotation for a in self.arguments)
        found += [layout for layout in self.layouts_in(text) if layout not in found]
        for letters in re.findall(r"einsum\(\s*[\"']([a-zA-Z]+)", self.code):
            if len(letters) in (3, 4):
                layout = layout_of(",".join(letters))
                found += [layout] if layout and layout not in found else []
        return found


def _names(maker: dict[str, Any], wanted: set[str]) -> bool:
    """Whether what may make something names all that is asked of it, whole or as two texts one after the other."""
    words = {*maker["words"]}
    return all(
        name in words or any(name[:n] in words and name[n:] in words for n in range(1, len(name))) for name in wanted
    )
