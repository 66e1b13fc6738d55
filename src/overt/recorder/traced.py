"""JAX code, recorded by its jaxpr, whose equations are done one after the other."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from overt.recorder.operations import Line, Log, is_own, leaves
from overt.recorder.primitives import back, compute, host

# Calls of functions that are as good as written out, and equations in all rounds of a loop that is.
_CALLS = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint",
}  # fmt: skip
_MOST = 2000


class _Seen(NamedTuple):
    """A value, the number of the operation that made it, and which argument it is."""

    host: Any
    number: int | None = None
    origin: str = ""


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of JAX arrays and note what it does; gives its result.

    Where whole numbers decide what is done, such as lengths in a loop, these are what they are and are not traced.
    """
    import jax

    flat, tree = jax.tree_util.tree_flatten((args, kwargs))
    dynamic = [i for i, x in enumerate(flat) if isinstance(x, jax.Array | np.ndarray)]
    # A tree of JAX has the names of a dictionary in another order than the dictionary.
    given = (x for x in leaves((args, list(kwargs.values()))) if hasattr(x, "shape"))
    order = {id(x): f"argument {i}" for i, x in enumerate(given)}
    origins = {place: order.get(id(flat[place]), f"argument {n}") for n, place in enumerate(dynamic)}
    try:
        return _run(function, flat, tree, dynamic, origins, log)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        known = [i for i in dynamic if flat[i].dtype.kind == "f"]
        if known == dynamic:
            raise
        # What JAX computes of its own arrays is traced, and of NumPy's it is not.
        flat = [np.asarray(x) if i in dynamic and i not in known else x for i, x in enumerate(flat)]
        return _run(function, flat, tree, known, origins, log)


def _run(
    function: Callable[..., Any],
    flat: list[Any],
    tree: Any,
    dynamic: Sequence[int],
    origins: Mapping[int, str],
    log: Log,
) -> Any:
    """The same, of the leaves of arguments.

    dynamic: the numbers of those that are traced; origins: what each array is, by its number.
    """
    import jax

    def call(*arrays: Any) -> Any:
        filled = list(flat)
        for i, x in zip(dynamic, arrays, strict=True):
            filled[i] = x
        given, named = jax.tree_util.tree_unflatten(tree, filled)
        return function(*given, **named)

    given = [flat[i] for i in dynamic]
    closed, shape = jax.make_jaxpr(call, return_shape=True)(*given)
    seen = [_Seen(host(x), None, origins[i]) for i, x in zip(dynamic, given, strict=True)]
    results = _Walk(log).evaluate(closed.jaxpr, closed.consts, seen, None)
    arrays = [back(kind, one.host) for kind, one in zip(closed.out_avals, results, strict=True)]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), arrays)


def evaluate(closed: Any, given: Sequence[Any]) -> list[Any]:
    """The results of a closed jaxpr; random numbers are others than those of JAX."""
    results = _Walk(None).evaluate(closed.jaxpr, closed.consts, [_Seen(host(x, True)) for x in given], None)
    return [back(kind, one.host) for kind, one in zip(closed.out_avals, results, strict=True)]


class _Walk:
    """The equations of a jaxpr one after the other."""

    def __init__(self, log: Log | None) -> None:
        """Without a log, nothing is noted, and random numbers are not those of JAX."""
        self.log = log

    def evaluate(self, jaxpr: Any, consts: Any, given: Sequence[_Seen], line: Line | None) -> list[_Seen]:
        """The results of a jaxpr; line: where what is nobody's own was called."""
        drawn = self.log is None
        known = dict(zip(jaxpr.constvars, (_Seen(host(x, drawn)) for x in consts), strict=True))
        known |= dict(zip(jaxpr.invars, given, strict=True))

        def read(atom: Any) -> _Seen:
            return _Seen(np.asarray(atom.val, atom.aval.dtype)) if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            here = None if drawn else _line(equation) or line
            name, params = equation.primitive.name, equation.params
            inner = next((params[key] for key in ("jaxpr", "call_jaxpr") if key in params), None)
            if name in _CALLS and inner is not None:
                body, held = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])
                outputs = self.evaluate(body, held, inputs, here)
            elif name == "cond":
                branch = params["branches"][int(np.clip(inputs[0].host, 0, len(params["branches"]) - 1))]
                outputs = self.evaluate(branch.jaxpr, branch.consts, inputs[1:], here)
            elif name == "scan" and (drawn or _equations(params) <= _MOST):
                outputs = self._rounds(params, inputs, here)
            else:
                made = compute(equation, [one.host for one in inputs], drawn)
                axes = str(params.get("dimension_numbers", ""))
                outputs = [self._noted(name, inputs, x, here, axes) for x in made]
            known |= dict(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _rounds(self, params: Any, inputs: list[_Seen], line: Line | None) -> list[_Seen]:
        """A loop, round by round."""
        body, start, number = params["jaxpr"], params["num_consts"], params["num_carry"]
        consts, carried, rows = inputs[:start], inputs[start : start + number], inputs[start + number :]
        rounds = range(params["length"])
        ends: dict[int, list[_Seen]] = {}
        for n in reversed(rounds) if params["reverse"] else rounds:
            row = [self._noted("index", [whole], whole.host[n], line) for whole in rows]
            found = self.evaluate(body.jaxpr, body.consts, [*consts, *carried, *row], line)
            carried, ends[n] = found[:number], found[number:]
        if not rounds:
            return [*carried, *(_Seen(np.zeros((0, *x.shape), x.dtype)) for x in body.out_avals[number:])]
        stacked = zip(*(ends[n] for n in rounds), strict=True)
        return [*carried, *(self._noted("stack", some, np.stack([x.host for x in some]), line) for some in stacked)]

    def _noted(self, name: str, inputs: Sequence[_Seen], x: Any, line: Line | None, axes: str = "") -> _Seen:
        # Keys of random numbers are no numbers.
        if self.log is None or not isinstance(x, np.ndarray):
            return _Seen(x)
        some = [one for one in inputs if isinstance(one.host, np.ndarray) and one.host.ndim]
        numbers, hosts = tuple(one.number for one in some), tuple(one.host for one in some)
        origins = tuple(one.origin for one in some)
        return _Seen(x, self.log.note(name, numbers, hosts, x, x, axes, line, origins))


def _equations(params: Any) -> int:
    """How many equations there are when all inner ones are written out."""
    inner = next((params[key] for key in ("jaxpr", "call_jaxpr") if key in params), None)
    if inner is None:
        return 1
    equations = inner.eqns if hasattr(inner, "eqns") else inner.jaxpr.eqns
    return int(params.get("length", 1)) * sum(_equations(equation.params) for equation in equations)


def _line(equation: Any) -> Line | None:
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        path = frame.file_name
        if is_own(_module(path)):
            return Line(path, frame.line_num)
    return None


def _module(path: str) -> str:
    """The package that a file belongs to."""
    parts = path.replace("\\", "/").split("/")
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1]
    # The standard library calls what it is given, and so does this package.
    return "overt" if path == __file__ or path.startswith(sysconfig.get_path("stdlib")) else "__main__"
