"""What names, annotations, comments and documentation say about a candidate's arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from overt.check.promises import Promises, layout_of
from overt.check.roles import Argument, role, settled
from overt.check.shapes import held


class Interface(Promises):
    """A callable of the candidate: its arguments with their roles, and its text."""

    def __init__(self, description: dict[str, Any], rows: list[dict[str, Any]], overrides: dict[str, str]) -> None:
        self.description = description
        self.name = description["name"]
        self.overrides = overrides
        self.arguments = settled([Argument(role=overrides.get(row["name"]) or self._role(row), **row) for row in rows])
        if rows is description["parameters"]:
            self.arguments = [self._unpacked(a) for a in self._asked()]
        self.by_role = {a.role: a for a in reversed(self.arguments) if a.role}
        self.by_role |= {part: replace(a, role=part, parts=()) for a in self.arguments for part in a.parts}

    def _role(self, row: dict[str, Any]) -> str | None:
        found = role(row["name"])
        name = row["name"]
        if (
            found == "mask"
            and name in ("m", "M")
            and re.search(rf"\b{name} *@|(k|v|key|value|kv|proj)\({name}\)|einsum\([^()]*\b{name}\b", self.code)
        ):
            # The memory, which is projected.
            return "context"
        return found

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

    def _unpacked(self, argument: Argument) -> Argument:
        """An argument that the code takes apart, ``q, k, v = inputs`` or ``q = inputs[0]``, with its parts' roles."""
        if argument.role in ("q", "k", "v", "qkv", "cache") or argument.name in self.overrides:
            return argument
        names: dict[int, str] = {}
        for node in _statements(self.description["body"]):
            if not isinstance(node, ast.Assign):
                continue
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and _is_name(node.value, argument.name):
                names |= {n: t.id for n, t in enumerate(target.elts) if isinstance(t, ast.Name)}
            for part in ast.walk(node.value):
                if (
                    isinstance(target, ast.Name)
                    and isinstance(part, ast.Subscript)
                    and _is_name(part.value, argument.name)
                    and isinstance(part.slice, ast.Constant)
                    and isinstance(part.slice.value, int)
                ):
                    names.setdefault(part.slice.value, target.id)
        parts = tuple(role(names[n]) or "" for n in sorted(names))
        if sorted(names) != list(range(len(names))) or len(set(parts)) < 2 or "" in parts:
            return argument
        known = all(re.match(r"[Wb](q|k|v|o)", p) for p in parts) or (
            {"q", "k", "v", "x", "context"} & set(parts) and argument.role in ("x", "context", "params", "kv", None)
        )
        return replace(argument, role="parts", parts=parts) if known else argument

    @cached_property
    def configs(self) -> dict[str, int]:
        """For arguments that are asked for attributes, the number of an object of the module that has them all."""
        source = self.description["source"] + "\n" + self.description["helpers"]
        asked: dict[str, set[str]] = {}
        for path, kind in held(source, [a.name for a in self.arguments]).items():
            if kind == "config":
                asked.setdefault(path[0], set()).add(path[1])
        own = [set(one["names"]) for one in self.description["configs"]]
        return {name: next(n for n, names in enumerate(own) if wanted <= names)
                for name, wanted in asked.items() if any(wanted <= names for names in own)}  # fmt: skip

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

    @cached_property
    def merges_pieces(self) -> bool:
        """Whether results over pieces of the keys are merged, in base 2 somewhere."""
        code = self.code + self.description["helpers"]
        return bool(re.search(r"log2|exp2", code) and re.search(r"split|chunk|block|lse|piece|part", code))

    @cached_property
    def rotates(self) -> bool:
        """Whether queries and keys seem to be rotated: it is said, or complex numbers are turned by angles."""
        words = r"rope|rotary|rotate|view_as_complex|torch\.polar"
        return bool(re.search(words, self.text + self.description["helpers"], re.IGNORECASE))

    @cached_property
    def told_heads(self) -> int | None:
        """How many heads the text of a function sets."""
        found = re.search(r"\b(?:n_?heads?|num_?heads|heads|nh|H|h)\s*=\s*(\d+)\b", self.text)
        return int(found.group(1)) if found and int(found.group(1)) > 0 else None


def _statements(source: str) -> Iterator[ast.AST]:
    with suppress(SyntaxError):
        yield from ast.walk(ast.parse(source))


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def thrown_away(code: str) -> bool:
    """Whether a call that masks returns what nobody takes, such as ``scores.masked_fill(mask, x)``."""
    return any(re.search(r"masked_fill$|where$|\.at\[.*\.(set|add|min)$", name) for name in _lost(code))


def _lost(code: str) -> list[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    return [
        ast.unparse(node.value.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
