"""What code asks of its arguments, read without running it: what lies in them, and what is done with that."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import product

from overt.check.text import numeric
from overt.check.text.asked import asked, paths_of
from overt.check.text.read import Read
from overt.check.text.roles import role
from overt.check.text.shapes import Path, Shape
from overt.check.text.syntax import (
    DEPTH,
    assigned,
    called,
    drawn,
    family,
    is_own,
    kept_calls,
    listed,
    lists_in,
    parameters_of,
    parsed,
    spelt,
    statements,
    texts_in,
    walked,
)


def _defaults(node: ast.AST) -> dict[str, str]:
    """The texts that arguments of the functions of a source are unless they are given."""
    found = dict[str, str]()
    for function in (n for n in walked(node) if isinstance(n, ast.FunctionDef)):
        last = function.args.args[len(function.args.args) - len(function.args.defaults) :]
        found |= {a.arg: x.value for a, x in zip(last, function.args.defaults, strict=True)
                  if isinstance(x, ast.Constant) and isinstance(x.value, str)}  # fmt: skip
    return found


def read(source: str, names: Sequence[str]) -> Read:
    """What a source asks of its arguments.

    ``w["q"]`` asks a dictionary, ``w.q``, where no array has an attribute q, a configuration, and a loop over what lies
    in something, or several names for it, a list.  What is handed on to other functions of the source is asked there.
    """
    return _read(source, tuple(names))


@lru_cache(maxsize=128)
def _read(source: str, names: tuple[str, ...]) -> Read:
    """The same, of what was read before too: to be read only."""
    found, tree = Read(), parsed(source)
    functions = {node.name: node for node in walked(tree) if isinstance(node, ast.FunctionDef)}
    for node in tree.body[1:]:
        # What makes an instance is called by the name of its class.
        made = {f.name: f for f in getattr(node, "body", ()) if isinstance(f, ast.FunctionDef)}.get("__init__")
        functions |= {node.name: made} if isinstance(node, ast.ClassDef) and made is not None else {}
    functions = kept_calls(tree) | functions
    for place, value in (pair for x in walked(tree) for pair in assigned(x)):
        if is_own(place) and isinstance(value, ast.Call) and _looks_up(ast.unparse(value.func), tree):
            # Of several things that it is given, which of them are words is read where it looks them up.
            run = functions.get(name := ast.unparse(place).partition(".")[2])
            found.embeds.update([name] if run is None or len(parameters_of(run)) < 2 else ())
    found.sides.update((name,) for name in _static(tree) if name in names)
    found.lists = lists_in(tree.body)
    for node in (x for x in tree.body if isinstance(x, ast.ClassDef)):
        found.lists |= {f"self.{name}": some for name, some in lists_in(node.body).items()}
    for own in family(tree.body[0], tree) if tree.body else ():
        # A method may be called with texts of its own class.
        passed = texts_in(walked(own), found.lists)
        joined = _joined(own, functions)
        said = _defaults(own)
        texts = {name: passed.get(name, [said.get(name, name)])[:1] for name in names if name in joined}
        # What is a place in an array too is a number in a text.
        places = _placed(own, functions) & {*texts}
        texts |= {name: ["0"] for name in places}
        found.numbers.update((name,) for name in places)
        found.texts |= {(name,): some[0] for name, some in texts.items() if name not in places}
        applied, each = _applied(own, names)
        found.applied |= applied
        found.listed |= each
        # What is declared in a class is given to whoever makes it.
        fields = {x.target.id for x in getattr(own, "body", ())
                  if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)}  # fmt: skip
        known: dict[str, list[Path]] = {name: [(name,)] for name in names}
        known |= {f"self.{name}": [(name,)] for name in names if name in fields}
        asked(own, known, texts, functions, found)
    return found


def _looks_up(name: str, tree: ast.Module) -> bool:
    """Whether what is called so is a table of vectors by its name, or makes one where it is a class of the source."""
    own = next((x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == name), None)
    calls = [ast.unparse(x.func) for x in walked(own) if isinstance(x, ast.Call)] if own is not None else [name]
    return any(call.endswith(("Embedding", "Embed")) and call != (own and own.name) for call in calls)


def _static(tree: ast.Module) -> list[str]:
    """Arguments that ``jax.jit`` is told to be no arrays, by their names or places."""
    function = next((own for own in tree.body[:1] if isinstance(own, ast.FunctionDef)), None)
    given = [
        x for part in getattr(function, "decorator_list", ()) for x in ast.walk(part) if isinstance(x, ast.keyword)
    ]
    named = [x.value for x in given if x.arg == "static_argnames"]
    numbered = [n.value for x in given if x.arg == "static_argnums" for n in ast.walk(x.value)
                if isinstance(n, ast.Constant)]  # fmt: skip
    names = parameters_of(function) if function is not None else []
    return [text for value in named for text in (listed(value, {}) or spelt(value, {}))] + [
        names[n] for n in numbered if isinstance(n, int) and n < len(names)
    ]


def _applied(own: ast.AST, names: Sequence[str]) -> tuple[dict[str, tuple[list[str], list[str]]], set[str]]:
    """Arguments that are called, here or where an instance keeps them, and what with; and those that are lists of such.

    A loop calls one of a list after the other.
    """
    kept = {name: name for name in names}
    for place, value in (pair for node in walked(own) for pair in assigned(node)):
        # What holds all of a list is one.
        whole = value.args[0] if isinstance(value, ast.Call) and len(value.args) == 1 else value
        kept |= {ast.unparse(place): ast.unparse(whole)} if is_own(place) and ast.unparse(whole) in names else {}
    loops = [pair for node in walked(own) if isinstance(node, ast.For | ast.comprehension)
             for pair in drawn(node.target, node.iter)]  # fmt: skip
    each = {ast.unparse(one): kept[ast.unparse(of)] for one, of in loops if ast.unparse(of) in kept}
    called = each | kept
    calls = [node for node in walked(own) if isinstance(node, ast.Call) and ast.unparse(node.func) in called]
    some = {called[ast.unparse(n.func)]: ([*map(ast.unparse, n.args)], [str(k.arg) for k in n.keywords]) for n in calls}
    lists = {each[name] for n in calls if (name := ast.unparse(n.func)) in each and name not in kept}
    return {name: given for name, given in some.items() if any(given)}, lists


def _joined(function: ast.AST, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> set[str]:
    """Names that stand beside texts in sums, or in texts that are keys, here or in what they are handed on to."""
    both = [(x.left, x.right) for x in walked(function) if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Add)]
    sums = [names for pair in both for one, names in (pair, pair[::-1]) if isinstance(one, ast.Constant | ast.JoinedStr)
            and isinstance(getattr(one, "value", ""), str)]  # fmt: skip
    keys = [x.slice for x in walked(function) if isinstance(x, ast.Subscript)]
    inside = [part.value for key in keys for part in ast.walk(key) if isinstance(part, ast.FormattedValue)]
    for call in walked(function):
        other = functions.get(called(call) or "")
        if isinstance(call, ast.Call) and other is not None and other is not function and depth < DEPTH:
            joined = _joined(other, functions, depth + 1)
            handed = [value for name, value in zip(parameters_of(other), call.args, strict=False) if name in joined]
            inside += [x for value in handed if isinstance(value, ast.Name | ast.JoinedStr | ast.BinOp)
                       for x in ast.walk(value) if isinstance(x, ast.Name)]  # fmt: skip
    found = {x.id for x in (*sums, *inside) if isinstance(x, ast.Name)}
    # What such a text was made of before has its part in it.
    made = [(place.id, value) for node in walked(function) for place, value in assigned(node)
            if isinstance(place, ast.Name) and isinstance(value, ast.JoinedStr)]  # fmt: skip
    for name, text in made[::-1]:
        found |= {x.id for x in ast.walk(text) if isinstance(x, ast.Name)} if name in found else set()
    return found


def _placed(function: ast.AST, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> set[str]:
    """Names that say where along an axis of an array something lies, here or in what they are handed on to."""
    keys = [x.slice.elts for x in walked(function) if isinstance(x, ast.Subscript) and isinstance(x.slice, ast.Tuple)]
    found = {x.id for elements in keys for x in elements if isinstance(x, ast.Name)}
    for call in walked(function):
        other = functions.get(called(call) or "")
        if isinstance(call, ast.Call) and other is not None and other is not function and depth < DEPTH:
            placed = _placed(other, functions, depth + 1)
            pairs = zip(parameters_of(other), call.args, strict=False)
            found |= {value.id for name, value in pairs if name in placed and isinstance(value, ast.Name)}
    return found


def contracted(source: str, whole: str, names: Sequence[str], found: Mapping[Path, Shape]) -> dict[Path, Shape]:
    """Shapes that the equations of einsum demand of arguments, and of what lies in them, beside those that are known.

    An axis of what is known has the word that it has there.  What no role has, and what is known is multiplied with,
    is a matrix.  What is handed on to other functions of the whole text is asked there.
    """
    made = dict(found)
    known: dict[str, list[Path]] = {own: [(name,)] for name in names for own in (name, f"self.{name}")}
    functions = {node.name: node for node in statements(parsed(whole)) if isinstance(node, ast.FunctionDef)}
    _contracted([*ast.walk(parsed(source))], known, functions, made, {*found})
    return made


def _contracted(
    nodes: Sequence[ast.AST],
    known: dict[str, list[Path]],
    functions: Mapping[str, ast.FunctionDef],
    made: dict[Path, Shape],
    told: Set[Path],
    depth: int = 0,
) -> None:
    """Enter what one function demands.  told: what was known before all of them."""
    texts = texts_in(nodes, {})
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            for left, right in product(*(paths_of(x, known, texts) for x in (node.left, node.right))):
                for one, two, axis in ((left, right, -1), (right, left, 0)):
                    shape = made[one] if one in told else None
                    nameless = len(two) == 1 and role(two[0]) is None
                    # From the left it meets the first of two axes.
                    if shape is not None and not shape.sort and nameless and (axis or len(shape.axes) == 2):
                        both = (shape.axes[axis], "width")
                        made.setdefault(two, Shape(both if axis else both[::-1], ""))
        other = functions.get(called(node) or "") if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and other is not None and other not in nodes and depth < DEPTH:
            pairs = zip(parameters_of(other), node.args, strict=False)
            inner = {name: handed for name, value in pairs if (handed := paths_of(value, known, texts))}
            _contracted(walked(other), inner, functions, made, told, depth + 1)
        equation = node.args[0] if isinstance(node, ast.Call) and node.args else None
        if not isinstance(equation, ast.Constant) or not isinstance(equation.value, str) or "->" not in equation.value:
            continue
        assert isinstance(node, ast.Call)
        letters = [part.strip() for part in equation.value.partition("->")[0].split(",")]
        paths = [paths_of(numeric.scaled(operand), known, texts) for operand in node.args[1:]]
        if len(letters) != len(paths) or not all(part.isalpha() for part in letters):
            continue
        words = {
            letter: word
            for part, some in zip(letters, paths, strict=True)
            for path in some
            if path in made and len(made[path].axes) == len(part)
            for letter, word in zip(part, made[path].axes, strict=True)
        }
        # A letter is the word that it is alone, small or large.
        said = [axis for shape in made.values() for axis in shape.axes]
        words = {part.lower(): part for axis in said for part in re.findall(r"\b[A-Z]\b", axis)} | words
        for part, some in zip(letters, paths, strict=True):
            for path in some:
                made.setdefault(path, Shape(tuple(words.get(letter, letter) for letter in part), ""))
