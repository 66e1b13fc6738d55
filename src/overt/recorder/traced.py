"""JAX code, recorded by its jaxpr."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from overt.recorder.operations import Line, Log, is_own, leaves

# Calls of functions that are as good as written out, and equations in all rounds of a loop that is.
_CALLS = {
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint",
}  # fmt: skip
_MOST = 2000


class _Value(NamedTuple):
    """An array or a number while it is traced, and its name; the names of constants are their values."""

    x: Any
    slot: Any


class _Step(NamedTuple):
    """One result of an equation, by the names of values."""

    name: str
    inputs: tuple[Any, ...]
    output: int
    axes: str
    line: Line | None


class _Loop(NamedTuple):
    """Rounds of the same steps: names of what they begin with, outside and inside, and of what they end with."""

    steps: list[Any]
    # what is handed on from round to round: at the beginning, in a round, at its end, and at the end of all
    carried: list[tuple[Any, int, Any, int]]
    # what each round has a row of, and what is made of each round's
    rows: list[tuple[Any, int]]
    stacked: list[tuple[Any, int]]
    rounds: range
    line: Line | None


class _Seen(NamedTuple):
    """A value that is known; the number of the operation that made it, and which argument it is."""

    host: np.ndarray
    number: int | None
    origin: str


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of JAX arrays and note what it does; gives its result."""
    import jax

    flat, tree = jax.tree_util.tree_flatten((args, kwargs))
    dynamic = [i for i, x in enumerate(flat) if isinstance(x, jax.Array | np.ndarray)]

    def call(*arrays: Any) -> Any:
        filled = list(flat)
        for i, x in zip(dynamic, arrays, strict=True):
            filled[i] = x
        given, named = jax.tree_util.tree_unflatten(tree, filled)
        return function(*given, **named)

    given = [flat[i] for i in dynamic]
    closed, shape = jax.make_jaxpr(call, return_shape=True)(*given)
    walk = _Walk()

    def whole(*arrays: Any) -> tuple[list[Any], list[Any]]:
        walk.steps, walk.made = [], []
        # Arguments are named from -1 downwards.
        values = [_Value(x, -1 - i) for i, x in enumerate(arrays)]
        return [one.x for one in walk.evaluate(closed.jaxpr, closed.consts, values, None)], walk.made

    # All at once, since each operation by itself would be compiled by itself.
    results, made = jax.jit(whole)(*given)
    # A tree of JAX has the names of a dictionary in another order than the dictionary.
    order = {id(x): i for i, x in enumerate(x for x in leaves((args, list(kwargs.values()))) if hasattr(x, "shape"))}
    seen = {-1 - i: _Seen(np.asarray(x), None, f"argument {order.get(id(x), i)}")
            for i, x in enumerate(given) if isinstance(x.dtype, np.dtype)}  # fmt: skip
    _noted(walk.steps, iter(made), seen, log)
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), results)


class _Walk:
    """The equations of a jaxpr one after the other, and what they make."""

    def __init__(self, names: Iterator[int] | None = None) -> None:
        self.steps: list[Any] = []
        self.made: list[Any] = []
        self.names = names or count()

    def evaluate(self, jaxpr: Any, consts: Any, given: list[_Value], line: Line | None) -> list[_Value]:
        """The results of a jaxpr; line: where what is nobody's own was called."""
        known = dict(zip(jaxpr.constvars, (_Value(x, _constant(x)) for x in consts), strict=True))
        known |= dict(zip(jaxpr.invars, given, strict=True))

        def read(atom: Any) -> _Value:
            return _Value(atom.val, _constant(atom.val)) if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            inputs, here = [read(atom) for atom in equation.invars], _line(equation) or line
            name, params = equation.primitive.name, equation.params
            inner = next((params[key] for key in ("jaxpr", "call_jaxpr") if key in params), None)
            if name in _CALLS and inner is not None:
                body, held = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])
                outputs = self.evaluate(body, held, inputs, here)
            elif name == "scan" and _equations(params) <= _MOST:
                outputs = self._rounds(params, inputs, here)
            else:
                made = equation.primitive.bind(*(x for x, _ in inputs), **params)
                made = made if equation.primitive.multiple_results else [made]
                outputs = [_Value(x, next(self.names)) for x in made]
                arrays, axes = tuple(one.slot for one in inputs), str(params.get("dimension_numbers", ""))
                for x, slot in outputs:
                    # Keys of random numbers are no numbers.
                    if isinstance(x.dtype, np.dtype):
                        self.steps.append(_Step(name, arrays, slot, axes, here))
                        self.made.append(x)
            known |= dict(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _rounds(self, params: Any, inputs: list[_Value], line: Line | None) -> list[_Value]:
        """A loop, whose rounds hand out all that they make."""
        import jax

        body, start, number = params["jaxpr"], params["num_consts"], params["num_carry"]
        consts, first, rows = inputs[:start], inputs[start : start + number], inputs[start + number :]
        inner = _Walk(self.names)
        ends: list[_Value] = []
        carried, row = ([next(self.names) for _ in some] for some in (first, rows))

        def one(carry: list[Any], xs: list[Any]) -> tuple[list[Any], tuple[list[Any], list[Any]]]:
            inner.steps, inner.made = [], []
            values = [_Value(x, n) for x, n in zip([*carry, *xs], [*carried, *row], strict=True)]
            ends[:] = inner.evaluate(body.jaxpr, body.consts, [*consts, *values], line)
            found = [jax.numpy.asarray(end.x, aval.dtype) for end, aval in zip(ends, body.out_avals, strict=True)]
            return found[:number], (found[number:], inner.made)

        turned = {"length": params["length"], "reverse": params["reverse"]}
        last, (stacked, made) = jax.lax.scan(one, [x for x, _ in first], [x for x, _ in rows], **turned)
        outputs = [_Value(x, next(self.names)) for x in (*last, *stacked)]
        numbers, names = [one.slot for one in outputs], [one.slot for one in ends]
        rounds = range(params["length"])
        self.steps.append(_Loop(
            inner.steps,
            list(zip([one.slot for one in first], carried, names[:number], numbers[:number], strict=True)),
            list(zip([one.slot for one in rows], row, strict=True)),
            list(zip(names[number:], numbers[number:], strict=True)),
            rounds[::-1] if params["reverse"] else rounds,
            line,
        ))  # fmt: skip
        self.made.append(made)
        return outputs


def _constant(x: Any) -> Any:
    """The name of a constant; that of a key of random numbers is nobody's."""
    return np.asarray(x) if isinstance(getattr(x, "dtype", np.dtype(float)), np.dtype) else -1_000_000


def _noted(steps: list[Any], made: Iterator[Any], seen: dict[Any, _Seen], log: Log) -> None:
    """Note steps, whose results are given in their order."""

    def read(slot: Any) -> _Seen | None:
        return seen.get(slot) if isinstance(slot, int) else _Seen(slot, None, "")

    def note(name: str, inputs: list[_Seen | None], x: Any, axes: str = "", line: Line | None = None) -> _Seen:
        some = [one for one in inputs if one is not None and one.host.ndim]
        numbers, hosts = tuple(one.number for one in some), tuple(one.host for one in some)
        origins = tuple(one.origin for one in some)
        host = np.asarray(x)
        return _Seen(host, log.note(name, numbers, hosts, x, host, axes, line, origins), "")

    for step in steps:
        x = next(made)
        if isinstance(step, _Step):
            seen[step.output] = note(step.name, [read(slot) for slot in step.inputs], x, step.axes, step.line)
            continue
        held = {inside: read(before) for before, inside, _, _ in step.carried}
        rows: dict[int, dict[int, _Seen]] = {}
        for number in step.rounds:
            inner = {**seen, **{slot: one for slot, one in held.items() if one is not None}}
            for outside, inside in step.rows:
                whole = read(outside)
                if whole is not None:
                    inner[inside] = note("index", [whole], whole.host[number], line=step.line)
            _noted(step.steps, iter([_row(one, number) for one in x]), inner, log)

            def end(slot: Any, inner: dict[Any, _Seen] = inner) -> _Seen | None:
                return inner.get(slot) if isinstance(slot, int) else _Seen(slot, None, "")

            held = {inside: end(after) for _, inside, after, _ in step.carried}
            rows[number] = {outside: one for inside, outside in step.stacked if (one := end(inside)) is not None}
        seen |= {outside: one for _, inside, _, outside in step.carried if (one := held[inside]) is not None}
        for _, outside in step.stacked:
            some = [rows[number][outside] for number in sorted(rows) if outside in rows[number]]
            if some:
                seen[outside] = note("stack", list(some), np.stack([one.host for one in some]), line=step.line)


def _row(made: Any, number: int) -> Any:
    """What one round made, and the rounds inside it."""
    return [_row(one, number) for one in made] if isinstance(made, list) else made[number]


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
