"""What can be said about a candidate without running it."""

from __future__ import annotations

import ast
import dis
import inspect
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from enum import Enum
from itertools import pairwise
from operator import attrgetter
from types import CodeType, SimpleNamespace
from typing import Any, get_args

from overt.check.text import usage
from overt.check.text.comments import around
from overt.check.text.syntax import parsed
from overt.check.text.usage import definition, scope, source_of
from overt.recorder.lists import takes_lists

# Methods that are called, the likelier first.
FORWARD = ("forward", "call", "__call__", "attend", "apply", "compute", "attention", "step", "decode", "decode_step")
# Methods and attributes that tensors have and NumPy's arrays have not.
_TENSOR = (
    r"\.(size\(|mT\b|softmax\(|masked_fill|expand\(|unsqueeze|permute\(|view\(|chunk\(|unbind\(|tril\(|triu\(|bmm\(|tanh\("
    r"|matmul\(|contiguous|transpose\(-|detach|repeat_interleave|repeat\(1,|flatten\(\d|dim\(\)|float\(\)|bool\(\)|new_)|[Tt]ensor\b|torch"
)
# Names in a list of names.
_TEXTS = 100
_PLAIN = (int, float, bool, str, type(None))


def describe(thing: Any) -> dict[str, Any]:
    """Kind, name, signatures, source and libraries of a function, class or instance."""
    kind = "class" if inspect.isclass(thing) else "function" if inspect.isroutine(thing) else "instance"
    if kind == "instance" and callable(thing) and hasattr(thing, "__wrapped__"):
        kind, thing = "function", thing.__wrapped__
    cls = thing if kind == "class" else type(thing)
    method = None
    if kind != "function":
        usual = FORWARD if not is_keras(cls) else ("call",)
        method = next((name for name in usual if _own(cls, name)), None)
        if method is None:
            own = [name for name, f in vars(cls).items() if inspect.isfunction(f) and not name.startswith("_")]
            method = own[0] if len(own) == 1 else None
    call = thing if kind == "function" else getattr(cls, method or "__call__", None)
    source, line = source_of(thing if kind == "function" else cls)
    functions = [thing] if kind == "function" else [f for f in vars(cls).values() if inspect.isfunction(f)]
    names = set().union(*(_names(f) for f in functions)) if functions else set()
    return {
        "kind": kind,
        "name": getattr(thing if kind != "instance" else cls, "__name__", "it"),
        "module": getattr(cls if kind != "function" else thing, "__module__", None),
        "method": method,
        # the method that somebody asked for
        "named": None,
        # whether it is several calls
        "composed": False,
        "methods": [n for n in dir(cls) if not n.startswith("_") and callable(getattr(cls, n, None))]
        if kind != "function" and "torch" not in str(cls.__mro__)
        else [n for n, f in vars(cls).items() if inspect.isfunction(f)],
        "parameters": arguments_of(call) if kind == "function" else rows_of(cls, method or "__call__"),
        "constructor": [
            # A configuration that may be left out is needed for all that.
            row | {"required": row["required"] or annotated(cls, row["name"]) is not None}
            for row in (_constructor(cls) if kind == "class" else ())
        ],
        "doc": (inspect.getdoc(thing) or "") if kind == "function" else _doc(cls),
        "told": _told(inspect.getmodule(cls if kind != "function" else thing)),
        "source": source,
        # of what is called, and of what makes it where another class does
        "body": "\n".join(source_of(f)[0] for f in (call, *_inherited(cls, kind))),
        "helpers": _helpers(functions, names),
        "reached": _reached(thing if kind == "function" else cls, functions),
        "around": around(thing),
        "line": line,
        "file": _file(thing if kind == "function" else cls),
        "backend": _backend(cls, thing, names, source, kind),
        # code that has none may still be one that is given arrays
        "libraries": libraries(thing if kind == "function" else cls) or ["numpy"],
        "bases": [base.__module__ + "." + base.__name__ for base in cls.__mro__],
        "globals": _globals(thing, names) if kind == "function" else [],
        # whole numbers of its module
        "numbers": {name: x for name, x in scope(thing).items() if type(x) is int},
        "masks": usage.masks(thing, call),
        "scaled": usage.scaled(thing),
        "configs": [
            {"class": type(x).__name__, "names": _public(x), "numbers": _whole(x), "scales": _scales(x)}
            for x in configs(thing)
        ],
        "makers": _makers(thing),
        "modules": _modules(thing),
    }


def _told(module: Any) -> str:
    """What a module says of itself: its documentation, and comments that it begins with."""
    above = inspect.getcomments(module) or "" if module is not None else ""
    return "\n".join(filter(None, [inspect.getdoc(module), re.sub(r"(?m)^[ \t]*#+ ?", "", above)]))


def _inherited(cls: Any, kind: str) -> list[Any]:
    """The constructor that a class has from another one of its module."""
    made = getattr(cls, "__init__", None)
    mine = kind == "class" and "__init__" not in vars(cls) and inspect.isfunction(made)
    return [made] if mine and made.__module__ == cls.__module__ else []


def _makers(thing: Any) -> list[dict[str, Any]]:
    """Functions and classes of the module of a thing that may make what it is given: their arguments and words.

    So do methods of its own; their names begin with a dot.
    """
    found = []
    own = definition(thing)
    bases = [base for base in own.__mro__[::-1] if base.__module__ == own.__module__] if inspect.isclass(own) else []
    for name, made in {name: f for base in bases for name, f in vars(base).items()}.items():
        source = source_of(made)[0] if inspect.isfunction(made) and name[:1] != "_" else ""
        if re.search(r"\breturn\s+\w*[^\s\w]*\w", source):
            words, rows = sorted({*re.findall(r"\w+", source)}), [row for row in rows_of(own, name) if row["required"]]
            found.append({"name": f".{name}", "class": False, "parameters": rows, "words": words, "source": source})
    for name, made in scope(thing).items():
        plain = inspect.isfunction(made) or (inspect.isclass(made) and not hasattr(made, "forward"))
        if plain and made is not own and getattr(made, "__module__", None) == own.__module__ and name != "main":
            source = source_of(made)[0]
            classed = inspect.isclass(made)
            # What a function may hand on has the names of a class, or stands in it as keywords or texts.
            words = re.findall(r"self\.(\w+)" if classed else r"\w+", source)
            words += [*_public(made), *getattr(made, "__annotations__", ())] if classed else []
            # Operators are no names that somebody chose.
            words += [own for own, x in vars(made).items() if own[:2] == "__" and inspect.isfunction(x)]
            with suppress(TypeError, ValueError):
                rows = arguments_of(made)
                found.append(
                    {"name": name, "class": classed, "parameters": rows, "words": sorted({*words}), "source": source}
                )
            found += _named_makers(name, made) if classed else []
    return found + _of_libraries(thing)


def _of_libraries(thing: Any) -> list[dict[str, Any]]:
    """Layers that an annotation, or of a library the documentation names, as what may be given."""
    own, found = definition(thing), dict[str, Any]()
    functions = [f for f in vars(own).values() if inspect.isfunction(f)] if inspect.isclass(own) else [own]
    annotations = "\n".join(row["annotation"] for f in functions for row in arguments_of(f))
    said = "\n".join([own.__doc__ or "", _told(inspect.getmodule(own))])
    paths = [*re.findall(r"(?:\w+\.)*[A-Z]\w*", annotations), *re.findall(r"\b(?:\w+\.)+[A-Z]\w*", said)]
    near = scope(thing)
    modules = {name: x for name, x in near.items() if inspect.ismodule(x)}
    for path in dict.fromkeys(paths):
        first, *rest = path.split(".")
        roots = [first] if first in near else [f"{name}.{first}" for name in modules]
        # What an annotation is has the name of where it was made, and may have come from there.
        for place in [".".join([root, *rest]) for root in roots] + rest[-1:]:
            with suppress(AttributeError, KeyError):
                owner, _, inner = place.partition(".")
                made = attrgetter(inner)(near[owner]) if inner else near[owner]
                given = inspect.isclass(made) and made is not own and (_runs(made) or _beside(made, own))
                if given and made not in found.values():
                    found[place] = made
    return [_layer(name, made) | {"layer": True} for name, made in found.items()]


def _layer(name: str, cls: Any) -> dict[str, Any]:
    """A layer as what may be given: what it is made of, and the words that it alone has, and not any layer."""
    source = source_of(cls)[0]
    any_ = {own for base in cls.__mro__ if not _runs(base) for own in vars(base)} if _runs(cls) else set()
    words = sorted({*re.findall(r"self\.(\w+)", source), *_public(cls)} - any_)
    return {"name": name, "class": True, "parameters": arguments_of(cls), "source": source, "words": words}


def _beside(cls: Any, own: Any) -> bool:
    """Whether a class is of another file in the folder of something, and is made of what it must be given."""
    one, other = _file(cls), _file(own)
    near = one is not None and other not in (None, one) and os.path.dirname(one) == os.path.dirname(other)
    return near and not issubclass(cls, Enum) and any(row["required"] for row in arguments_of(cls))


def _runs(cls: Any) -> bool:
    """Whether a class is a layer with a way of its own to be called, and none that stands for any layer."""
    return getattr(getattr(cls, "forward", None), "__name__", "") == "forward"


def _named_makers(name: str, cls: Any) -> list[dict[str, Any]]:
    """Methods by which a class makes one of its own, such as one that is empty."""
    found = []
    for own, kept in vars(cls).items():
        if isinstance(kept, staticmethod | classmethod) and own[:1] != "_":
            source = source_of(kept.__func__)[0]
            if re.search(rf"return (cls|{re.escape(name)})\(", source):
                words = sorted({name, *re.findall(r"\w+", source)})
                rows = [row for row in arguments_of(getattr(cls, own)) if row["required"]]
                one = {"name": f"{name}.{own}", "class": False, "parameters": rows}
                found.append({**one, "words": words, "source": source})
    return found


def _modules(thing: Any) -> list[dict[str, Any]]:
    """Other classes of the module of a thing whose instances are called, and what these take."""
    own, found = definition(thing), []
    for name, made in scope(thing).items():
        if inspect.isclass(made) and made is not own and made.__module__ == own.__module__:
            method = next((one for one in FORWARD if _own(made, one)), None)
            with suppress(TypeError, ValueError):
                found += [_layer(name, made) | {"takes": rows_of(made, method)}] if method else []
    return found


def configs(thing: Any) -> list[Any]:
    """Objects that hold numbers in the module of a thing, or that its classes of fields make; the smallest first."""
    own = definition(thing)
    found = []
    for x in scope(thing).values():
        if inspect.isclass(x) and x is not own and x.__module__ == own.__module__:
            if is_dataclass(x) or hasattr(x, "_fields"):
                with suppress(Exception):
                    found.append(x())
        elif (is_dataclass(x) and not inspect.isclass(x)) or isinstance(x, SimpleNamespace) or hasattr(x, "_fields"):
            found.append(x)
    return sorted((x for x in found if _whole(x)), key=lambda x: sum(_whole(x).values()))


def annotated(thing: Any, name: str) -> Any:
    """What the class of an argument, by its annotation or the documentation, makes without arguments.

    None where that holds no numbers.
    """
    with suppress(Exception):
        annotation = inspect.signature(thing).parameters[name].annotation
        texts = [annotation] if isinstance(annotation, str) else []
        texts += re.findall(rf"(?m)^[ \t`*]*{name}[`*]* ?[(:](.*)$", _doc(thing) if inspect.isclass(thing) else "")
        for kind in (annotation, *get_args(annotation), *re.findall(r"\w+", " ".join(texts))):
            cls: Any = scope(thing).get(kind) if isinstance(kind, str) else kind
            own = inspect.isclass(cls) and cls.__module__.partition(".")[0] not in sys.stdlib_module_names
            # An array is no configuration.
            if own and not hasattr(cls, "__array_priority__") and not hasattr(cls, "forward") and _whole(made := cls()):
                return made
    return None


def _public(x: Any) -> list[str]:
    return [name for name in dir(x) if name[:1] != "_"]


def _whole(x: Any) -> dict[str, int]:
    """The whole numbers that an object or a mapping holds, by their names."""
    values = {name: value for name, value in x.items() if isinstance(name, str)} if isinstance(x, Mapping) else {}
    for name in () if isinstance(x, Mapping) else _public(x):
        with suppress(Exception):
            values[name] = getattr(x, name)
    return {name: value for name, value in values.items() if type(value) is int}


def _scales(x: Any) -> list[float]:
    """The numbers that an object holds as scales, by their names."""
    values = [getattr(x, name, None) for name in _public(x) if re.search(r"scal(e|ing|ar)\b", name)]
    return [float(n) for n in values if isinstance(n, int | float) and n > 0 and not isinstance(n, bool)]


def is_keras(cls: Any) -> bool:
    """Whether a class is a layer of Keras, whose weights are made by its first call."""
    return any(base.__module__.partition(".")[0] == "keras" for base in cls.__mro__)


def _own(cls: Any, name: str) -> bool:
    found = inspect.getattr_static(cls, name, None)
    return (
        found is not None
        and (inspect.isfunction(found) or isinstance(found, staticmethod))
        and not (name == "forward" and getattr(found, "__name__", "") == "_forward_unimplemented")
        and getattr(found, "__module__", "") != "torch.nn.modules.module"
    )


def _gets_instance(cls: Any, name: str) -> bool:
    """Whether a method's first argument is the instance, whatever it is called."""
    return not isinstance(inspect.getattr_static(cls, name, None), staticmethod | classmethod)


def _helpers(functions: list[Any], names: set[str]) -> str:
    """Source of the functions of the module that are called."""
    scopes = [getattr(inspect.unwrap(f), "__globals__", {}) for f in functions[:1]]
    return "\n".join(
        source_of(scope[n])[0] for scope in scopes for n in sorted(names) if inspect.isfunction(scope.get(n))
    )


def _reached(thing: Any, functions: list[Any]) -> str:
    """Source of what it is built on and calls in its module or is given by itself, and of what that calls."""
    module = getattr(functions[0], "__module__", None) if functions else None
    bases = [base for base in getattr(thing, "__mro__", ())[1:] if base.__module__ == thing.__module__]
    own, found = scope(thing), {base.__name__: source_of(base)[0] for base in bases}
    open_ = [*functions, *(f for base in bases for f in vars(base).values() if inspect.isfunction(f))]
    while open_:
        function = open_.pop()
        given = {type(default).__name__ for default in getattr(function, "__defaults__", None) or ()}
        for name in sorted((_names(function, 4) | given) - found.keys()):
            other = own.get(name)
            if isinstance(other, str) and "{" in other:
                # A text in which something is put.
                found[name] = f"{name} = {other!r}"
            if isinstance(other, tuple | list | dict | set | frozenset) and _are_texts(other):
                found[name] = f"{name} = {tuple(other)!r}"
            if other is not thing and getattr(other, "__module__", None) == module and callable(other):
                found[name] = source_of(other)[0]
                open_ += (
                    [f for f in vars(other).values() if inspect.isfunction(f)] if inspect.isclass(other) else [other]
                )
    return "\n".join(found.values())


def _are_texts(some: Collection[Any]) -> bool:
    """Whether there are some, and all are texts, as names of weights are."""
    return 0 < len(some) <= _TEXTS and all(isinstance(text, str) for text in some)


def _file(thing: Any) -> str | None:
    with suppress(TypeError, OSError):
        return inspect.getsourcefile(inspect.unwrap(thing))
    return None


def rows_of(cls: Any, method: str) -> list[dict[str, Any]]:
    """The arguments of a method, without the instance."""
    return arguments_of(getattr(cls, method, None), skip=_gets_instance(cls, method))


def _constructor(cls: Any) -> list[dict[str, Any]]:
    """The arguments of a constructor, and those of the one of a base to which it hands on all others."""
    rows = rows_of(cls, "__init__")
    makers = [vars(base)["__init__"] for base in cls.__mro__[:-1] if "__init__" in vars(base)]
    for own, base in pairwise(makers):
        code = getattr(inspect.unwrap(own), "__code__", None)
        if code is None or not code.co_flags & inspect.CO_VARKEYWORDS or base.__module__.partition(".")[0] == "torch":
            break
        # What it gives by itself is not handed on.
        calls = [node for node in ast.walk(parsed(source_of(own)[0])) if isinstance(node, ast.Call)]
        made = [node for node in calls if getattr(node.func, "attr", "") == "__init__"]
        given = {one.arg for node in made for one in node.keywords} | {row["name"] for row in rows}
        first = max((sum(getattr(x, "id", "") != "self" and not isinstance(x, ast.Starred) for x in node.args)
                     for node in made), default=0)  # fmt: skip
        more = [row | {"kind": "keyword"} for row in arguments_of(base, skip=True)[first:] if row["name"] not in given]
        rows = [*(r for r in rows if r["kind"] != "keyword"), *more, *(r for r in rows if r["kind"] == "keyword")]
    return rows


def arguments_of(call: Any, skip: bool = False) -> list[dict[str, Any]]:
    """What can be said about each argument of something that is called; without the first, where that is skipped."""
    try:
        found = list(inspect.signature(_wrapped(call)).parameters.values())
    except (TypeError, ValueError):
        # Functions written in C tell their arguments in the first line of their documentation.
        doc = getattr(call, "__doc__", None)
        head = re.match(r"\s*\w+\((.*?)\)\s*->", doc, re.DOTALL) if isinstance(doc, str) else None
        parts = [p.strip() for p in head.group(1).split(",")] if head else []
        return [_row(p, n > parts.index("*") if "*" in parts else False)
                for n, p in enumerate(parts) if p not in ("*", "/")]  # fmt: skip
    rows = []
    for number, p in enumerate(found):
        if (skip and number == 0) or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        plain = p.default is p.empty or isinstance(p.default, _PLAIN)
        default = p.default if plain and p.default is not p.empty else None
        told = "" if p.annotation is p.empty else str(p.annotation)
        kinds: dict[Any, str] = {p.KEYWORD_ONLY: "keyword", p.POSITIONAL_ONLY: "position"}
        kind = kinds.get(p.kind, "either")
        row = {"name": p.name, "required": p.default is p.empty, "default": default}
        # A function or an array is no setting.
        held = {} if plain or callable(p.default) or hasattr(p.default, "dtype") else _whole(p.default)
        rows.append(row | {"annotation": told, "kind": kind, "held": held})
    return rows


def _wrapped(call: Any) -> Any:
    """The one function that another one closes over, which takes whatever that takes and says nothing of it."""
    inner = [cell.cell_contents for cell in getattr(call, "__closure__", None) or ()]
    functions = [x for x in inner if inspect.isfunction(x)]
    several = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    code = getattr(call, "__code__", None)
    vague = code is not None and code.co_flags & several == several and code.co_argcount < 2
    return _wrapped(functions[0]) if vague and len(functions) == 1 else call


def _doc(cls: type) -> str:
    """The documentation of a class, its own or that of one of its module: a library's is about something else."""
    told = ((base, vars(base).get("__doc__")) for base in cls.__mro__ if base.__module__ == cls.__module__)
    # A class of fields without any is documented by its own signature, and so are modules of Flax.
    own = (
        text
        for base, text in told
        if text and isinstance(text, str) and not (is_dataclass(base) and text.startswith(f"{base.__name__}("))
    )
    return inspect.cleandoc(next(own, ""))


def _row(text: str, named: bool) -> dict[str, Any]:
    """An argument as it is written in documentation, such as ``is_causal=False``."""
    name, given, default = text.partition("=")
    value = None
    with suppress(ValueError, SyntaxError):
        value = ast.literal_eval(default.strip())
    row = {"name": name.partition(":")[0].strip(), "required": not given, "annotation": ""}
    return row | {"default": value if isinstance(value, _PLAIN) else None, "kind": "keyword" if named else "either"}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _names(function: Any, depth: int = 0, seen: set[int] | None = None) -> set[str]:
    """Names that a function and the functions of its module that it calls look up; modules by their own names."""
    function = inspect.unwrap(function)
    code, scope = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None or depth > 4:
        return set()
    seen = set() if seen is None else seen
    seen.add(id(code))
    # Attributes have names of their own, which say nothing about the module.
    names = {i.argval for part in _codes(code) for i in dis.get_instructions(part) if i.opname == "LOAD_GLOBAL"}
    found = set(names)
    for name in names:
        value = scope.get(name)
        if inspect.ismodule(value):
            found.add("module " + value.__name__.partition(".")[0])
        elif inspect.isfunction(value) and id(value.__code__) not in seen:
            found |= {n for n in _names(value, depth + 1, seen) if n.startswith("module ")}
        elif inspect.isclass(value) or inspect.isbuiltin(value):
            found.add("module " + str(getattr(value, "__module__", "")).partition(".")[0])
    return found


def _backend(cls: Any, thing: Any, names: set[str], source: str, kind: str) -> str:
    # A file of one's own may have a name that begins as that of a library does.
    bases = {base.__module__.partition(".")[0] for base in cls.__mro__}
    module = str(getattr(thing, "__module__", "") or "").partition(".")[0]
    if "keras" in bases:
        return "keras"
    if "torch" in bases or module == "torch":
        return "torch"
    if "flax" in bases:
        # What it is made of may have all that JAX is asked for.
        return "jax"
    for library in ("torch", "jax", "tensorflow", "keras"):
        if f"module {library}" in names or (module == library and library in sys.modules):
            return library
    tensors = re.search(_TENSOR, re.sub(r"\bmath\.", "", source))
    arrays = libraries(thing if kind == "function" else cls) or "module numpy" in names
    if not (tensors or arrays) and takes_lists(source):
        return "python"
    return "torch" if "torch" in sys.modules and "module numpy" not in names and tensors else "numpy"


def libraries(thing: Any) -> list[str]:
    """Array libraries that the module of a thing has at hand."""
    near = getattr(inspect.unwrap(thing), "__globals__", None) if inspect.isroutine(thing) else None
    names = {x.__name__.partition(".")[0] for x in (near or scope(thing)).values() if inspect.ismodule(x)}
    return [name for name in ("torch", "numpy", "jax", "tensorflow") if name in names]


def _globals(function: Any, names: set[str]) -> list[str]:
    """Arrays of the module that the function reads."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    return sorted(
        n
        for n in names
        if not (n not in scope or inspect.ismodule(scope[n]) or inspect.isclass(scope[n]))
        and hasattr(scope[n], "shape")
        and hasattr(scope[n], "dtype")
    )
