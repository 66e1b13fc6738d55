"""The arrays of an instance: where they are, filled with numbers of a seed, and made wide."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import FrozenInstanceError
from math import prod
from typing import Any

import numpy as np

from overt.check.process import wire
from overt.check.process.describe import is_keras
from overt.check.steps.definitions import waves
from overt.recorder.flow import masklike


def parameters(
    thing: Any, seed: int | None, out: wire.Arrays | None = None, *, state: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Every float array of four axes or fewer that an instance owns, filled with numbers of a seed.

    What was made by a rule, such as sines of positions or a mask, stays as it is; so do zeros that methods add to, by
    the names in ``state``.
    A row says where it is, how large, and whether an optimizer would find it; ``out``, if given, gets the numbers.
    """
    rows = []
    random = np.random.default_rng(seed)
    owned = callable(getattr(thing, "named_parameters", None)) and not is_keras(type(thing))
    registered = {id(p) for _, p in thing.named_parameters()} if owned else set()
    for path, owner, array in _walk(thing, "", set()):
        shape = tuple(int(n) for n in array.shape)
        # A number that was learned is somebody's choice: a temperature, a gate.
        empty = path.partition(".")[0] in state and not _read(array).any()
        if seed is not None:
            # What is left as it is draws too, so that the others get the same numbers.
            values = _drawn(random, shape, type(owner).__name__, path)
            if shape and not empty and not _ruled(_read(array)):
                array = _fill(owner, path, array, values)
        if out is not None:
            out[path] = np.array(_read(array), np.float64)
        rows.append(
            {
                "path": path,
                "shape": shape,
                "registered": not owned or id(array) in registered or not _trainable(array),
            }
        )
    return rows


def _drawn(random: np.random.Generator, shape: tuple[int, ...], kind: str, path: str) -> np.ndarray:
    """Numbers for an array of a layer of some kind, as large as its sums need them."""
    # What a convolution sums over has several axes.
    width = shape[0] if len(shape) == 1 else prod(shape[1:])
    values = random.normal(size=shape) * (max(width, 1) ** -0.5)
    if len(shape) == 1 and "Norm" in kind:
        values = values * 0.1 + (1 if path.endswith(("weight", "gamma", "scale")) else 0)
    return values


def own(thing: Any) -> dict[str, np.ndarray]:
    """The arrays that an instance itself holds, by the names of its attributes, as they are now; none of zeros."""
    found = {path: array for path, _, array in _walk(thing, "", set()) if "." not in path}
    found |= {name: x for name, x in (getattr(thing, "_buffers", None) or {}).items() if x is not None}
    arrays = {path: np.array(_read(x)) for path, x in found.items()}
    # What is kept for what comes begins with zeros, and is filled; the share of what is dropped is a number of layers.
    arrays = {path: x for path, x in arrays.items() if x.any()}
    layers = thing.named_modules() if callable(getattr(thing, "named_modules", None)) else ()
    rates = {f"rate {name}": layer.p for name, layer in layers if type(getattr(layer, "p", None)) is float}
    return arrays | {name: np.array(rate) for name, rate in rates.items()}


def _ruled(array: np.ndarray) -> bool:
    """Whether numbers were made by a rule, and neither drawn nor the same for all: a mask, a progression, waves."""
    rows = array.reshape([n for n in array.shape if n != 1]).astype(float)
    if rows.size < 3 or not np.ptp(rows) or not np.isfinite(rows).all():
        return bool(rows.size > 2 and np.isinf(rows).any() and masklike(rows))
    if rows.ndim == 1:
        steps, ratios = np.diff(rows), rows[1:] / np.where(rows[:-1] == 0, np.nan, rows[:-1])
        return bool(np.allclose(steps, steps[0], rtol=1e-4) or np.allclose(ratios, ratios[0], rtol=1e-4))
    if masklike(rows):
        # A matrix that changes nothing is what weights begin with.
        return not (rows.ndim == 2 and np.array_equal(rows, np.eye(*rows.shape)))
    return rows.ndim == 2 and waves(rows)


def _trainable(array: Any) -> bool:
    return bool(getattr(array, "requires_grad", False))


def _read(array: Any) -> np.ndarray:
    if hasattr(array, "detach"):
        return array.detach().cpu().double().numpy()
    return np.asarray(array.numpy() if hasattr(array, "numpy") else array)


def _fill(owner: Any, path: str, array: Any, values: np.ndarray) -> Any:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        with torch.no_grad():
            array.copy_(torch.from_numpy(values))
    elif isinstance(array, np.ndarray):
        array[...] = values
    elif _is_variable(array):
        array[...] = sys.modules["jax"].numpy.asarray(values)
    elif hasattr(array, "assign"):
        array.assign(values)
    else:
        name = path.rpartition(".")[2]
        values = sys.modules["jax"].numpy.asarray(values)
        if isinstance(owner, list):
            owner[int(name)] = values
        elif isinstance(owner, dict):
            owner[name] = values
        elif isinstance(owner, tuple):
            return array
        else:
            try:
                setattr(owner, name, values)
            except FrozenInstanceError:
                # As its own constructor does it.
                object.__setattr__(owner, name, values)
        return values
    return array


def _is_variable(thing: Any) -> bool:
    """Whether a thing is a variable of Flax, which holds an array."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(thing, nnx.Variable)


def _is_parameter(array: Any, own: bool) -> bool:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return isinstance(array, torch.nn.Parameter) or (array.requires_grad and array.is_leaf)
    if isinstance(array, np.ndarray) or type(array).__module__.startswith("jax") or _is_variable(array):
        return own and getattr(getattr(array, "dtype", None), "kind", "") == "f" and 1 <= getattr(array, "ndim", 0) <= 4
    return False


def _walk(thing: Any, path: str, seen: set[int], depth: int = 0) -> Iterator[tuple[str, Any, Any]]:
    """Parameters below a thing: (path, owner, array), registered first."""
    if id(thing) in seen or depth > 8:
        return
    seen.add(id(thing))
    if is_keras(type(thing)):
        places = _keras_names(thing)
        for variable in thing.trainable_variables:
            where, owner = places.get(id(variable), (variable.name, thing))
            yield where, owner, variable
        return
    named: dict[str, Any] = {}
    if hasattr(thing, "_parameters") and hasattr(thing, "_modules"):
        named |= {n: p for n, p in thing._parameters.items() if p is not None}
        named |= {n: m for n, m in thing._modules.items() if m is not None}
        named |= {n: x for n, x in vars(thing).items() if not n.startswith("_") and n not in named}
    elif isinstance(thing, dict):
        named = {str(n): x for n, x in thing.items()}
    elif isinstance(thing, list | tuple):
        named = {str(n): x for n, x in enumerate(thing)}
    elif hasattr(thing, "__dict__") and not inspect.isclass(thing) and not inspect.isroutine(thing):
        named = {n: x for n, x in vars(thing).items() if not n.startswith("__")}
    for name, value in named.items():
        where = f"{path}.{name}" if path else name
        if _is_parameter(value, own=True):
            if id(value) not in seen:
                seen.add(id(value))
                yield where, thing, value
        elif isinstance(value, dict | list | tuple) or (
            hasattr(value, "__dict__")
            and not inspect.ismodule(value)
            and not inspect.isclass(value)
            and not inspect.isroutine(value)
        ):
            yield from _walk(value, where, seen, depth + 1)


def _keras_names(thing: Any) -> dict[int, tuple[str, Any]]:
    """For each variable of a layer of Keras the names of the attributes that lead to it, and the layer that owns it."""
    found: dict[int, tuple[str, Any]] = {}
    layers = [("", thing)]
    known = {id(thing)}
    while layers:
        path, layer = layers.pop(0)
        mine = [(v, v.name) for v in layer.trainable_variables]
        named = {**vars(layer), **vars(layer).get("_modules", {})}
        flat = [
            (f"{name}.{n}" if isinstance(value, list | tuple) else name, part)
            for name, value in named.items()
            for n, part in enumerate(value if isinstance(value, list | tuple) and name[0] != "_" else [value])
        ]
        for name, part in flat:
            where = f"{path}.{name}" if path else name
            if is_keras(type(part)) and hasattr(part, "trainable_variables") and id(part) not in known:
                known.add(id(part))
                layers.append((where, part))
            mine = [(v, name.lstrip("_") if v is part else old) for v, old in mine]
        # The last layer that knows a variable is the innermost.
        found |= {id(v): (f"{path}.{name}" if path else name, layer) for v, name in mine}
    return found


def widen(thing: Any) -> None:
    """Parameters that the instance does not know about become float64 like those that it does."""
    torch = sys.modules.get("torch")
    if torch is not None:
        for _, _, array in _walk(thing, "", set()):
            if isinstance(array, torch.Tensor) and array.dtype == torch.float32 and hasattr(thing, "double"):
                array.data = array.data.double()


def widened(values: Mapping[str, Any]) -> dict[str, Any]:
    """float32 for each of some values that is a type of half as wide numbers, which show little of what is computed."""
    found = {}
    for name, value in values.items():
        called = str(getattr(value, "__name__", None) or value).rpartition(".")[2]
        library = str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
        if called in ("bfloat16", "float16", "half") and not isinstance(value, str):
            found[name] = sys.modules["torch"].float32 if library == "torch" else np.float32
    return found


def defaults(call: Any) -> dict[str, Any]:
    """Arguments of something that are types of half as wide numbers unless they are given, as types of wider ones."""
    try:
        found = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return {}
    return widened({p.name: p.default for p in found if p.kind is not p.POSITIONAL_ONLY})
