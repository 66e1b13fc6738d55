"""Where what a line does was decided, read without running it: a factor, an axis or a mask that it takes."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from overt.check.text.syntax import assigned, family, is_own, parsed, statements, walked

# So often what decides takes it from elsewhere in its turn.
_DEPTH = 4
# Functions that make numbers of numbers, and masks of lengths.
_NUMBERS = {"sqrt", "rsqrt", "pow", "power", "float", "int", "tensor", "array", "float32", "float64", "size"}
_MASKS = {"tri", "tril", "triu", "arange"}
# What something has that are its numbers.
_NUMBERS_OF = {"real", "imag", "T", "mT"}
_LENGTHS_OF = {"size", "dim", "numel"}
# What steps go by is called so where calls are given it.
_NAMED = {"scale": ("scale",), "causal": ("is_causal", "attn_mask"), "dropout": ("dropout_p",),
          "mask": ("attn_mask", "key_padding_mask")}  # fmt: skip
_ORDERS = ast.Lt | ast.LtE | ast.Gt | ast.GtE
_PARTS = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.operator,
          ast.unaryop, ast.expr_context)  # fmt: skip


class _Place(NamedTuple):
    """A line, and what is assigned or handed over there."""

    line: int
    value: ast.expr


def decided(file: str, line: int, step: str) -> int:
    """The line that decides what a step does: itself, or that where what it only takes was made.

    step: "scale", "softmax", "causal" or "mask", in which a factor, an axis or a mask may come from a constructor, an
    earlier line or the one place that calls a function; of any other, such as "dropout", it is what a call is given.
    """
    tree = parsed("".join(linecache.getlines(file)))
    value: ast.expr | None = None
    used = line
    for _ in range(_DEPTH):
        inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
        functions = [n for n in inside if isinstance(n, ast.FunctionDef)]
        if not functions:
            return used
        if value is None:
            line = used = given_at(file, line, step)
        wanted = list(_taken(inside[-1], step)) if value is None else [value]
        if step == "scale":
            # What is wrong with one that is taken twice is that.
            wanted = [one for one in wanted if _times(one, functions[-1]) < 2]
        places = [place for one in wanted for place in _made(one, functions[-1], tree, line, step)]
        if len({place.line for place in places}) != 1:
            return used
        line, value = places[0]
        # What is kept under the name that it is given by is what it is wherever it is used.
        kept = [name for n in statements(tree) if n.lineno == line for name, _ in _kept(n)]
        used = used if isinstance(value, ast.Name) and kept == [value.id] else line
        if not isinstance(value, ast.Name):
            return line
    return used


def given_at(file: str, line: int, step: str) -> int:
    """Of a call in several lines, that of the factor or the mask which it is given; or that line."""
    inside = [
        n for n in statements(parsed("".join(linecache.getlines(file)))) if n.lineno <= line <= (n.end_lineno or 0)
    ]
    return next((x.lineno for n in inside[-1:] for x in _handed(n, _NAMED.get(step, ()))), line)


def function_at(file: str, line: int) -> str | None:
    """The name of the function that a line is in."""
    nodes = statements(parsed("".join(linecache.getlines(file))))
    inside = [n.name for n in nodes if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)]
    return inside[-1] if inside else None


def calls_of(file: str, name: str) -> set[str]:
    """What functions of a name call, by its last name."""
    nodes = statements(parsed("".join(linecache.getlines(file))))
    own = (n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == name)
    return {_name(n) for function in own for n in ast.walk(function) if isinstance(n, ast.Call)}


def returned_at(file: str, line: int, last: int) -> int | None:
    """Where what a line names is returned by the function that it and a later line are in; None where it is not."""
    tree = parsed("".join(linecache.getlines(file)))
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    own = next((n for n in inside[::-1] if isinstance(n, ast.FunctionDef)), None)
    if own is None or not own.lineno <= last <= (own.end_lineno or 0):
        return None
    names = {ast.unparse(place) for n in inside for place, _ in assigned(n)}
    found = [n for n in walked(own) if isinstance(n, ast.Return) and n.value and names & _read(n.value)]
    return found[-1].lineno if found else None


def failed_at(file: str, lines: Sequence[int]) -> int:
    """Of lines that led to the last, from the outermost, the last, or that which calls a helper of several places."""
    tree, line = parsed("".join(linecache.getlines(file))), lines[-1]
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    helper = next((n for n in inside[::-1] if isinstance(n, ast.FunctionDef)), None)
    if len(lines) < 2 or helper is None or helper.name in ("__call__", "forward", "call"):
        return line
    return lines[-2] if len({n.lineno for n in _calls_of(helper, tree)}) > 1 else line


def documented(file: str) -> set[int]:
    """The lines of a file that are documentation."""
    nodes = statements(parsed("".join(linecache.getlines(file))))
    told = [n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    return {line for n in told for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)}


def called_at(file: str, line: int, called: str, owner: str) -> int:
    """The one line of what is called that calls the function which a line is in; that line if there is none.

    Of methods that are called so, in several classes, those of the owner.

    Or if that function makes what the line makes in several steps, and so decides on their order itself.
    """
    tree, name = parsed("".join(linecache.getlines(file))), function_at(file, line)
    own = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)]
    made = [(x.lineno, ast.unparse(place)) for n in own[-1:] for x in ast.walk(n) if isinstance(x, ast.Assign)
            for place, _ in assigned(x)]  # fmt: skip
    if any(one == other and number != line for at, one in made if at == line for number, other in made):
        return line
    weighs = (n for n in ast.walk(own[-1]) if isinstance(n, ast.Call)) if own else ()
    if own and (_made_here(own[-1], line) or any("softmax" in _name(n) for n in weighs)):
        return line
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == called != name]
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == owner]
    functions = [n for n in functions if any(n in c.body for c in classes)] or functions
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _name(n) == name]
    # Or of the whole file, where what it calls does that.
    found = {n.lineno for n in calls if any(f.lineno <= n.lineno <= (f.end_lineno or 0) for f in functions)}
    found = found or {n.lineno for n in calls}
    return found.pop() if len(found) == 1 else line


def _made_here(function: ast.FunctionDef, line: int) -> bool:
    """Whether a line takes what the function around it made of what it had made before."""
    made = [(_name(place), value) for n in statements(function) if n.lineno < line for place, value in assigned(n)]
    first = {name for name, value in made if not isinstance(value, ast.Name)}
    then = {
        name for name, value in made if first & ({n.id for n in ast.walk(value) if isinstance(n, ast.Name)} - {name})
    }
    taken = (n for x in statements(function) if x.lineno == line for n in ast.walk(x) if isinstance(n, ast.Name))
    return any(n.id in then for n in taken)


def counted_at(file: str, line: int, later: Collection[str] = ()) -> int:
    """The line in which the positions are counted that a line turns by; that line if there is none.

    It may lie in what calls the function around it, be a call that leaves out where to begin, or that in which the
    length is read of what came before.
    later: the methods that go on where others began, which are looked into first.
    """
    tree = parsed("".join(linecache.getlines(file)))
    goes_on = {at for n in statements(tree) if isinstance(n, ast.FunctionDef) and n.name in later
               for at in range(n.lineno, (n.end_lineno or 0) + 1)}  # fmt: skip
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    wanted: list[ast.AST] = [*inside[-1:]]
    found, here = line, line
    for depth in range(_DEPTH):
        functions = [n for n in statements(tree)
                     if isinstance(n, ast.FunctionDef) and n.lineno <= here <= (n.end_lineno or 0)]  # fmt: skip
        if not functions:
            break
        function = functions[-1]
        made, read = _behind(function, wanted, here)
        counts = next((n for n in (*wanted, *made) if [*_counting(n)]), None)
        if counts is not None:
            found = next((n.lineno for n in made if n is counts), here)
            made, read = _behind(function, [*_counting(counts)], found)
        begins = next((n for n in made if _perhaps_none(n.value)), None)
        if begins is not None:
            # What is handed on, and made of it, is what is wrong there.
            own = {x.id for place in begins.targets for x in ast.walk(place) if isinstance(x, ast.Name)}
            handed = counts is None and not own & set().union(*map(_read, wanted))
            return found if handed else begins.lineno
        told = read & {a.arg for a in function.args.args}
        calls = sorted(_calls_of(function, tree), key=lambda n: (n.lineno not in goes_on, n.lineno)) if told else []
        if not calls or (counts is None and depth > 1):
            break
        without = [n for n in calls if counts is not None and _left_out(n, function) & told]
        found = here = (without or calls)[0].lineno
        if without:
            break
        wanted = [value for name, value in _given(calls[0], function).items() if name in told]
    return found


def _behind(function: ast.FunctionDef, wanted: Sequence[ast.AST], line: int) -> tuple[list[ast.Assign], set[str]]:
    """The assignments of a function that expressions in a line go by, the last first, and the names read in them all.

    What is only asked for its length, or for what it has, is not read.
    """
    made, read = list[ast.Assign](), set().union(*map(_read, wanted))
    before = [n for n in statements(function) if isinstance(n, ast.Assign) and n.lineno < line]
    for node in before[::-1]:
        if {x.id for place in node.targets for x in ast.walk(place) if isinstance(x, ast.Name)} & read:
            made.append(node)
            read |= _read(node.value)
    return made, read


def _read(node: ast.AST) -> set[str]:
    """The names that are read in an expression, but for those that are asked for their length or their parts alone."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    asked = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr not in _NUMBERS_OF
             and (id(n) not in called or n.attr in _LENGTHS_OF)}  # fmt: skip
    asked |= {id(x) for n in ast.walk(node) if isinstance(n, ast.Call) and _name(n) == "len" for x in n.args}
    return {x.id for x in ast.walk(node)
            if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load) and id(x) not in asked}  # fmt: skip


def _counting(node: ast.AST) -> Iterator[ast.AST]:
    """What counts in an expression, or takes some rows of something that is kept; what is a power counts features."""
    powers = [n.right for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    features = {id(n) for power in powers for n in ast.walk(power)}
    for n in ast.walk(node):
        counts = isinstance(n, ast.Call) and _name(n) == "arange" and id(n) not in features
        taken = (
            isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Slice) and getattr(n.value, "attr", "") != "shape"
        )
        if counts or taken:
            yield n


def _perhaps_none(value: ast.expr) -> bool:
    """Whether it is 0 where there is nothing, and something's length else."""
    return isinstance(value, ast.IfExp) and any(getattr(x, "value", None) == 0 for x in (value.body, value.orelse))


def _calls_of(function: ast.FunctionDef, tree: ast.Module) -> list[ast.Call]:
    """The calls of a function in its file; of a method that stands for an instance, those of its instances."""
    owner = next((n.name for n in statements(tree) if isinstance(n, ast.ClassDef) and function in n.body), None)
    called = {function.name}
    if owner is not None and function.name in ("__call__", "forward", "call"):
        # Instances are called by the names that they are given, or by that of their class in small.
        made = [place for n in ast.walk(tree) for place, value in assigned(n)
                if isinstance(value, ast.Call) and _name(value) == owner]  # fmt: skip
        called = {owner.lower()} | {getattr(x, "attr", getattr(x, "id", "")) for x in made}
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _name(n) in called]


def _given(call: ast.Call, function: ast.FunctionDef) -> dict[str, ast.expr]:
    """What a call gives for the arguments of a function."""
    names = [a.arg for a in function.args.args]
    given = dict(zip(names[names[:1] == ["self"] :], call.args, strict=False))
    return given | {k.arg: k.value for k in call.keywords if k.arg is not None}


def _left_out(call: ast.Call, function: ast.FunctionDef) -> set[str]:
    """The arguments with a default that a call does not give."""
    names = [a.arg for a in function.args.args]
    return {*names[len(names) - len(function.args.defaults) :]} - _given(call, function).keys()


def twice(file: str, line: int) -> int | None:
    """The line of the function around a line that computes for one name what was computed for another one before."""
    tree = parsed("".join(linecache.getlines(file)))
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    functions = [n for n in inside if isinstance(n, ast.FunctionDef)]
    known: dict[str, str] = {}
    for node in statements(functions[-1]) if functions else ():
        # What has several names at once is computed once.
        several = isinstance(node, ast.Assign) and len(node.targets) > 1
        for one, made in assigned(node) if not several else ():
            computed = any(isinstance(n, ast.Call | ast.BinOp) for n in ast.walk(made))
            if computed and known.setdefault(ast.unparse(made), ast.unparse(one)) != ast.unparse(one):
                return made.lineno
    return None


def keyed(file: str, line: int, deep: int = 1) -> int:
    """The line of the function around a line that makes what this looks things up by; that line if there is no such."""
    tree = parsed("".join(linecache.getlines(file)))
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    functions = [n for n in inside if isinstance(n, ast.FunctionDef)]
    if not functions:
        return line
    function, nodes = functions[-1], [*ast.walk(inside[-1])]
    looked = [n.slice for n in nodes if isinstance(n, ast.Subscript)]
    looked += [n.left for n in nodes if isinstance(n, ast.Compare) and isinstance(n.ops[0], ast.In | ast.NotIn)]
    looked += [n.args[0] for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.args]
    names = {n.id for n in looked if isinstance(n, ast.Name)}
    made = [place.lineno for n in statements(function) for place, _ in assigned(n)
            if isinstance(place, ast.Name) and place.id in names and place.lineno < line]  # fmt: skip
    if made or not deep:
        return made[-1] if made else line
    # Or it is told what to look things up by.
    told = {a.arg for a in function.args.args} & names
    calls = {n.lineno: n for n in ast.walk(tree) if told and isinstance(n, ast.Call) and _name(n) == function.name}
    if len(calls) != 1:
        return line
    ((first, call),) = calls.items()
    made_at = keyed(file, first, deep - 1)
    # What is handed on as it is was not made there.
    return line if made_at == first and all(isinstance(x, ast.Name) for x in call.args) else made_at


def makers_in(file: str | None, text: str) -> Iterator[str]:
    """The code of functions of a file that a text, in small, says something is made by."""
    lines = linecache.getlines(file or "")
    for node in statements(parsed("".join(lines))):
        name = rf"\W{{0,3}}(\w+\.)*{re.escape(node.name.lower())}\b" if isinstance(node, ast.FunctionDef) else "(?!)"
        made = rf"\b(made|built|returned|computed|given|output|result) (by|from|of){name}"
        if re.search(rf"{made}|\bwhat{name}\W{{0,4}}(returns|makes|gives)", text):
            yield "".join(lines[node.lineno - 1 : node.end_lineno])


def made_in(file: str, line: int, look: str) -> int:
    """The line of a function of the file that a line calls, in which what looks so is made, and so on; or that line.

    Or that beside it in which so is made what it takes.
    """
    lines = linecache.getlines(file)
    tree = parsed("".join(lines))
    # What is defined in another one is a part of it.
    inner = {n for f in statements(tree) if isinstance(f, ast.FunctionDef) for n in statements(f) if n is not f}
    functions = {n.name: n for n in statements(tree) if isinstance(n, ast.FunctionDef) and n not in inner}
    # What a class makes, its constructor does.
    functions |= {c.name: n for c in statements(tree) if isinstance(c, ast.ClassDef)
                  for n in c.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"}  # fmt: skip
    for _ in range(_DEPTH):
        inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
        here = [*ast.walk(inside[-1])] if inside else []
        # What the instance keeps is made where it is kept.
        read = {_name(n) for n in here if is_own(n)}
        kept = (pair for x in statements(tree) for pair in _kept(x))
        here += [n for name, value in kept if name in read for n in ast.walk(value)]
        called = {_name(n) for n in here if isinstance(n, ast.Call)}
        made: list[ast.stmt] = []
        for function in (functions[name] for name in called & {*functions}):
            plain = (n for n in statements(function) if not isinstance(n, ast.Expr) and not hasattr(n, "body"))
            alike = [n for n in plain if re.search(look, "".join(lines[n.lineno - 1 : n.end_lineno]))]
            # What it gives back by itself, or else what is given back first.
            alike.sort(key=lambda n: (not isinstance(n, ast.Return), n.lineno))
            own = [n for n in alike if n in function.body and isinstance(n, ast.Return)]
            made += (own or alike)[:1]
        if inside and not made and not re.search(look, lines[line - 1]):
            taken = {n.id for n in here if isinstance(n, ast.Name)}
            beside = [n for f in functions.values() if inside[-1] in (some := [*statements(f)]) for n in some]
            made = [n for n in beside if isinstance(n, ast.Assign) and re.search(look, lines[n.lineno - 1])
                    and any(_name(place) in taken for place, _ in assigned(n))]  # fmt: skip
        if len(made) > 1:
            # Of several, what it is rather made of.
            first = look.partition("|")[0]
            made = [n for n in made if re.search(first, "".join(lines[n.lineno - 1 : n.end_lineno]))]
        if len(made) != 1:
            break
        line = made[0].lineno
    return line


def kept_in(file: str, line: int, look: str) -> int:
    """Where what looks so is made of what the instance keeps and a line reads, or where that calls; or that line."""
    lines = linecache.getlines(file)
    tree = parsed("".join(lines))
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    if not inside:
        return line
    functions = [n for n in statements(tree) if isinstance(n, ast.FunctionDef)]
    made, read = inside[-1:], set[str]()
    # What the line reads was made before it, from what is kept.
    for function in [f for f in functions if f in inside] + [f for f in functions if f not in inside]:
        names = {n.id for n in ast.walk(made[0]) if isinstance(n, ast.Name)} if function in inside else set[str]()
        read |= {_name(n) for n in ast.walk(made[0]) if is_own(n)}
        for node in sorted(statements(function), key=lambda n: -n.lineno):
            of = [value for name, value in _kept(node) if name in read]
            of += [value for place, value in assigned(node)
                   if names & {n.id for n in ast.walk(place) if isinstance(n, ast.Name)}]  # fmt: skip
            made += [node] if of else []
            names |= {n.id for value in of for n in ast.walk(value) if isinstance(n, ast.Name)}
            read |= {_name(n) for value in of for n in ast.walk(value) if is_own(n)}
    called = {_name(n) for one in made for n in ast.walk(one) if isinstance(n, ast.Call)}
    made += [n for f in functions if f.name in called for n in statements(f) if not hasattr(n, "body")]
    # Of several, what it is rather made of.
    alike = (n.lineno for some in (look.partition("|")[0], look) for n in made
             if re.search(some, "".join(lines[n.lineno - 1 : n.end_lineno])))  # fmt: skip
    return next(alike, line)


def scaled_by_one(file: str, line: int) -> bool:
    """Whether a call in a line is given the number 1 as its scale, in so many words."""
    inside = [
        n for n in statements(parsed("".join(linecache.getlines(file)))) if n.lineno <= line <= (n.end_lineno or 0)
    ]
    given = _handed(inside[-1], _NAMED["scale"]) if inside else []
    return bool(given) and all(isinstance(x, ast.Constant) and x.value == 1 for x in given)


def repeated_at(file: str, line: int) -> int:
    """Where one thing is first kept several times, as in ``[Linear(d, d)] * 3``, of what a line takes; or that line."""
    tree = parsed("".join(linecache.getlines(file)))
    inside = [n for n in statements(tree) if n.lineno <= line <= (n.end_lineno or 0)]
    read = {_name(n) for n in ast.walk(inside[-1]) if is_own(n)} if inside else set()
    found = {n.lineno for x in statements(tree) for name, value in _kept(x) for n in ast.walk(value)
             if name in read and isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)
             and any(isinstance(side, ast.List) for side in (n.left, n.right))}  # fmt: skip
    return min(found, default=line)


def _times(one: ast.expr, function: ast.FunctionDef) -> int:
    """How often something is a factor in a function."""
    factors = (n for n in ast.walk(function) if isinstance(n, ast.BinOp | ast.AugAssign))
    sides = (x for n in factors if isinstance(n.op, ast.Mult | ast.Div)
             for x in ((n.left, n.right) if isinstance(n, ast.BinOp) else (n.value,)))  # fmt: skip
    return sum(ast.unparse(x) == ast.unparse(one) for x in sides)


def _handed(statement: ast.stmt, names: Sequence[str]) -> list[ast.expr]:
    """What calls in a statement are given under the first of some names that is given at all."""
    given = [k for n in ast.walk(statement) if isinstance(n, ast.Call) for k in n.keywords]
    return next((found for name in names if (found := [k.value for k in given if k.arg == name])), [])


def _taken(statement: ast.stmt, step: str) -> Iterator[ast.expr]:
    """What a statement takes that a step goes by; nothing where it has numbers of its own for that."""
    nodes = [*ast.walk(statement)]
    if step == "mask":
        yield from (x for x in _handed(statement, _NAMED[step]) if isinstance(x, ast.Name))
    if step == "scale":
        factors = [
            n for n in nodes if isinstance(n, ast.BinOp | ast.AugAssign) and isinstance(n.op, ast.Mult | ast.Div)
        ]
        sides = [x for n in factors for x in ((n.left, n.right) if isinstance(n, ast.BinOp) else (n.value,))]
        sides += _handed(statement, _NAMED[step])
        if not any(isinstance(x, ast.Constant) or _name(x) in _NUMBERS or _power(x) for x in sides):
            yield from (x for x in sides if isinstance(x, ast.Name) or is_own(x))
    for call in (n for n in nodes if isinstance(n, ast.Call)):
        if step == "softmax":
            yield from [call.func] if is_own(call.func) else []
            given = [*call.args[1:2], *(k.value for k in call.keywords if k.arg in ("dim", "axis"))]
            weighs = "softmax" in _name(call).lower() or _name(call) == "sum"
            yield from (x for x in given if isinstance(x, ast.Name)) if weighs else ()
        if step == "causal" and _name(call) in ("where", "masked_fill", "masked_fill_"):
            inner = [n for one in call.args[:1] for n in ast.walk(one)]
            # What is compared there is made a mask there, but with 0.
            made = (n for n in inner if isinstance(n, ast.Compare))
            if all(isinstance(x, ast.Constant) for n in made for x in n.comparators):
                yield from (n for n in inner if isinstance(n, ast.Name))
                yield from (n for n in inner if isinstance(n, ast.Attribute) and is_own(n))
    if step == "causal" and isinstance(statement, ast.Assign):
        # What is written to where a mask says so.
        places = [n for x in statement.targets if isinstance(x, ast.Subscript) for n in ast.walk(x.slice)]
        if not any(isinstance(n, ast.Compare) for n in places):
            yield from (n for n in places if isinstance(n, ast.Name))


def _decides(place: _Place, step: str, handed: bool = False) -> bool:
    """Whether what is assigned, or handed over, may decide a step: a factor that is computed, a softmax, or a mask."""
    nodes = [*ast.walk(place.value)]
    if isinstance(place.value, ast.Name) or step == "mask":
        return not isinstance(place.value, ast.Constant)
    if step == "causal":
        ordered = any(isinstance(op, _ORDERS) for n in nodes if isinstance(n, ast.Compare) for op in n.ops)
        return ordered or any(_name(n) in _MASKS for n in nodes if isinstance(n, ast.Call))
    if step == "softmax":
        return "softmax" in _name(place.value).lower() or isinstance(place.value, ast.Constant | ast.UnaryOp)
    called = [_name(n) for n in nodes if isinstance(n, ast.Call)]
    # A width that is wanted elsewhere is no factor, and what is wrong is to take it for one.
    factor = handed or "sqrt" in "".join(called) or any(isinstance(n, ast.Pow) for n in nodes)
    return factor and all(isinstance(n, _PARTS) for n in nodes) and all(name in _NUMBERS for name in called)


def _made(one: ast.expr, function: ast.FunctionDef, tree: ast.Module, line: int, step: str) -> list[_Place]:
    """Where a name, or an attribute of the instance, gets what decides: it is assigned, or handed over by who calls."""
    holder = next((n for n in statements(tree) if isinstance(n, ast.ClassDef) and function in n.body), None)
    if isinstance(one, ast.Attribute):
        own = family(holder, tree) if holder is not None else ()
        places = [_Place(n.lineno, value) for x in own for n in statements(x) for name, value in _kept(n)
                  if name == one.attr]  # fmt: skip
        return [place for place in places if _decides(place, step)]
    if not isinstance(one, ast.Name):
        return []
    assigned = (n for n in statements(function) if isinstance(n, ast.Assign) and n.lineno < line)
    before = [_Place(n.lineno, n.value) for n in assigned if any(_name(x) == one.id for x in n.targets)]
    before = [place for place in before if _decides(place, step)]
    names = [a.arg for a in function.args.args]
    if before or one.id not in names:
        return [max(before, key=lambda place: place.line)] if before else []
    called = holder.name if holder is not None and function.name == "__init__" else function.name
    at = names.index(one.id) - (holder is not None)
    found = []
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and _name(n) == called):
        given = next((k.value for k in call.keywords if k.arg == one.id), None)
        given = given or (call.args[at] if at < len(call.args) else None)
        found += [_Place(call.lineno, given)] if given is not None else []
    return [place for place in found if _decides(place, step, handed=True)]


def _kept(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """What a statement keeps in the instance, as an attribute or a buffer, by its name."""
    yield from ((_name(place), value) for place, value in assigned(node) if is_own(place))
    match node:
        case ast.Expr(value=ast.Call(args=[ast.Constant(value=str() as name), value, *_]) as call):
            yield from [(name, value)] if _name(call) == "register_buffer" else []


def _power(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)


def _name(node: ast.AST) -> str:
    """The last name of what is called or read."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
