"""What an instance holds, by which is seen whether a call has changed it, and put back what it was given."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

# What is never changed in its place, or means nothing to a call.
_FIXED = (str, int, float, complex, type(None), type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)
# What holds others and has no attributes.
_HOLDING = (dict, list, tuple, set, frozenset)

# A thing, its class, and what lies in it, or how often an array was written to.
Held = list[tuple[Any, type, Any]]


def held(thing: Any) -> Held | None:
    """All that a module of torch holds; None where that is not seen."""
    if not hasattr(thing, "named_modules"):
        return None
    found: Held = []
    open_, seen = [thing], set[int]()
    while open_:
        x = open_.pop()
        if isinstance(x, _FIXED) or id(x) in seen:
            continue
        seen.add(id(x))
        if hasattr(x, "data_ptr"):
            found.append((x, type(x), getattr(x, "_version", None)))
        elif isinstance(x, _HOLDING) or hasattr(x, "__dict__"):
            found.append((x, type(x), inside := _inside(x)))
            open_ += _parts(inside)
        else:
            return None
    return found


def restored(known: Held) -> bool:
    """Whether all is as ``held`` found it, once the modules' own attributes, buffers and hooks are put back.

    Whatever else was written to may lie in what an earlier call returned.
    """
    changed = [(x, was) for x, kind, was in known if not _same(x, kind, was)]
    if not changed:
        return True
    module = sys.modules["torch"].nn.Module
    kept = [name for name, x in vars(module()).items() if isinstance(x, dict)]
    own = {id(was.get(name)) for x, _, was in known if isinstance(x, module) for name in kept}
    if any(type(x) is not kind for x, kind, _ in known):
        return False
    if not all(isinstance(x, module) or id(x) in own for x, _ in changed):
        return False
    for x, was in changed:
        mode = {} if isinstance(x, dict) else {"training": x.training}
        inside = x if isinstance(x, dict) else x.__dict__
        inside.clear()
        inside.update(was | mode)
    return True


def _same(x: Any, kind: type, was: Any) -> bool:
    if type(x) is not kind or not isinstance(was, dict | list):
        return type(x) is kind and getattr(x, "_version", None) == was
    now = _inside(x)
    return len(now) == len(was) and all(map(operator.is_, _parts(now), _parts(was)))


def _parts(inside: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return inside.values() if isinstance(inside, dict) else inside


def _inside(x: Any) -> dict[Any, Any] | list[Any]:
    """What lies in a container or an object; what mode it is in is said to each call."""
    if isinstance(x, dict):
        return dict(x)
    if isinstance(x, _HOLDING):
        return [*x]
    return {name: part for name, part in vars(x).items() if name != "training"}
