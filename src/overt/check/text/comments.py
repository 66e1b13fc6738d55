"""Documentation and comments, as they stand in a source and around what is called."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from overt.check.text.syntax import parsed, statements
from overt.check.text.usage import definition, scope, source_of


def texts(source: str) -> list[str]:
    """Documentation and comments in a source: what is said of arguments before what is said of what is made of them."""
    quoted = re.findall(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', source, re.DOTALL)
    # A paragraph of a documentation does not go on in a comment, nor one comment in another that stands behind code.
    behind_code = re.findall(r"^(.*?)#(.*)", source, re.MULTILINE)
    return [*(f"{one or two}\n" for one, two in quoted),
            *("\n" * bool(code.strip()) + says for code, says in behind_code)]  # fmt: skip


def behind(source: str) -> str:
    """Comments that begin with a shape and stand behind an argument, or where it is kept, each after its name."""
    place = r"^[ \t]*(?:self\.\w+ *= *)?(\w+)(?:: *[^#=\n]+(?:=[^#\n]*)?|,|)[ \t]*# *([(\[].*)$"
    found = [f"{name} {text}" for name, text in re.findall(place, source, re.MULTILINE)]
    # Names for what lies in one thing, and as many shapes.
    several = r"^[ \t]*\w+(?:, *\w+)+ *= *(\w+)[ \t]*# *([(\[].*)$"
    for name, text in re.findall(several, source, re.MULTILINE):
        found += [f'{name}["{n}"] {shape}' for n, shape in enumerate(re.findall(r"[(\[][^()\[\]]*[)\]]", text))]
    return "\n".join(found)


def about(names: list[str], text: str, own: Collection[str] = ()) -> Iterator[str]:
    """What a text that is about several things says of these names: lines that begin with one, and what follows.

    own: what they are arguments of; what stands in its calls, and behind them, is about these names.
    """
    mine, known = False, {*names, *(name.capitalize() for name in names if len(name) > 2)}
    call = re.compile(r"\W{0,8}(?:\w+ = )?(?:(\w+)\.)?(\w+)\(((?:[^()]|\([^()]*\))*)\)(?: *(?:->|→)[^:]*$)?:?")
    # One letter is a name where a shape stands beside it, or beside the last of several.
    shape = r"(?: *:)?[ \t]*(?:\[|\([^()]*,)"
    column = r"(\w+)[ \t]{2,}(?=\w)"
    begins = rf"\W{{0,8}}(?:(\w\w+)\W{{0,3}}[ \t]*[=:([]|(\w(?:\w*, *\w+)*)(?:\s+\[|{shape})|`(\w+)`|{column})"
    # So does a sentence that begins with one, in its marks or before its shape.
    for line in re.sub(r"(?<=[.;])\s+(?=`\w+`|\w+ \(\w+,)", "\n", text).splitlines():
        # What stands behind a call, and what it gives, is about what is called.
        line = re.sub(r"^\s*\w+\([\w, =]*\)(?: *(?:->|→) *(?:\w+|\([\w, ]+\)))? {2,}(?=\w)", "", line)
        calls = call.match(line)
        # So is what stands behind what it gives back.
        named = None if re.match(r"\W*[Rr]eturns?\b", line) else re.match(begins, line)
        given = re.findall(r"(?:^|,)[ *]*(\w+)", re.sub(r"\([^()]*\)", "", calls[3])) if calls else []
        # What is written large is a class, and may be another one.
        mine_too = calls and calls[2] in own and (calls[1] in own or not (calls[1] or "")[:1].isupper())
        if calls and mine_too and given and known.issuperset(given):
            mine, line = True, f"{calls[3]}; " * ("(" in calls[3]) + line[calls.end() :]
        elif named or not line.strip():
            said = re.findall(r"\w+", " ".join(filter(None, named.groups()))) if named else ()
            mine = not known.isdisjoint(said)
        if mine:
            yield line


def aside(source: str, names: set[str]) -> list[str]:
    """Comments in branches that are taken only where one of these names is given, and those that stand above them."""
    lines, found = source.splitlines(), list[str]()
    for node in (n for n in statements(parsed(source)) if isinstance(n, ast.If)):
        given = _given(node.test, names)
        # The lines between these, counted from 1.
        before, last = (
            (node.lineno, node.body[-1]) if given else (node.body[-1].end_lineno or 0, (node.orelse or [node])[-1])
        )
        while given and lines[before - 2].lstrip().startswith("#"):
            before -= 1
        found += [] if given is None else re.findall(r"#(.*)", "\n".join(lines[before - given : last.end_lineno]))
    return found


def _given(test: ast.expr, names: set[str]) -> bool | None:
    """Whether one of these names is given wherever a test holds, or (False) wherever it does not."""
    match test:
        case ast.BoolOp(op=ast.And(), values=several):
            return True if True in [_given(one, names) for one in several] else None
        case ast.UnaryOp(op=ast.Not(), operand=one):
            given = _given(one, names)
            return None if given is None else not given
        case ast.Compare(left=one, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            return isinstance(op, ast.IsNot) if ast.unparse(one) in names else None
    return True if ast.unparse(test) in names else None


def around(thing: Any) -> str:
    """Names, documentation and comments of what a function or class uses of its own module, and of what that uses."""
    own, near = definition(thing), scope(thing)
    told: list[str] = []
    open_: list[Any] = [own]
    seen = {id(own)}
    while open_:
        with suppress(tokenize.TokenError):
            source, _ = source_of(open_.pop(0))
            told += _comments(source)
            for name in (n.id for n in ast.walk(parsed(source)) if isinstance(n, ast.Name)):
                used = near.get(name)
                mine = inspect.isclass(used) or inspect.isfunction(used)
                if mine and getattr(used, "__module__", None) == own.__module__ and id(used) not in seen:
                    seen.add(id(used))
                    told.append(name)
                    open_.append(used)
    return "\n".join(told)


def _comments(source: str) -> list[str]:
    """Documentation and comments of a source."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    said = [t.string for t in tokens if t.type == tokenize.COMMENT]
    said += [t.string for t in tokens if t.type == tokenize.STRING and t.string.lstrip("rRbBuU")[:3] in ('"""', "'''")]
    return said
