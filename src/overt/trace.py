"""Every intermediate of attention, in order, to read: of the definition, or of somebody's own code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Generic, overload

import numpy as np

from overt import reference
from overt.errors import ArgumentError
from overt.grid import ArrayT, host, numbered
from overt.problem import Problem
from overt.recorder import Line, Operation, library_of, record_operations
from overt.recorder.lists import arrays
from overt.recorder.operations import drained, leaves
from overt.reference import Step

# Larger arrays are summarised by their mean and variance alone.
_SMALL = 64
# Longer lines of code are cut.
_CODE = 60


class Trace(Sequence[Step], Generic[ArrayT]):
    """Named steps in order: ``trace["weights"]`` is the array, ``trace.step("weights")`` all about it."""

    _columns: tuple[str, ...] = ("step", "formula", "axes", "shape", "mean", "variance")

    def __init__(self, steps: Sequence[Step], problem: Problem) -> None:
        self._steps, self._problem = tuple(steps), problem

    @property
    def problem(self) -> Problem:
        """What was asked, with every default and broadcast made plain."""
        return self._problem

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the steps, in order."""
        return tuple(step.name for step in self._steps)

    def step(self, name: str) -> Step:
        """The step of this name."""
        for step in self._steps:
            if step.name == name:
                return step
        raise KeyError(f"no step {name!r}; the steps are {', '.join(self.names)}")

    @overload
    def __getitem__(self, index: str) -> ArrayT: ...
    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: str | int | slice) -> Any:
        return self.step(index).array if isinstance(index, str) else self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def __contains__(self, name: object) -> bool:
        return name in self.names or name in self._steps

    def __str__(self) -> str:
        rows = [self._columns, *map(self._row, self._steps)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        aligned = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        lines = aligned[:1]
        for line, step in zip(aligned[1:], self._steps, strict=True):
            lines.append(line)
            if _size(step) <= _SMALL:
                lines.extend("    " + numbers for numbers in _numbers(step).splitlines())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Trace({', '.join(self.names)}): print it to read the steps"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in (*self._columns, "numbers"))
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in self._row(step))
            + f"<td><pre>{escape(_numbers(step)) if _size(step) <= _SMALL else '…'}</pre></td></tr>"
            for step in self._steps
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _row(self, step: Any) -> tuple[str, ...]:
        return step.name, step.formula, step.axes, *_summary(step)


@dataclass(frozen=True, eq=False)
class CodeStep(Step):
    """One operation of somebody's own code: the formula is the source of its line.

    The name is the role that it has in an attention ("queries", "keys", "scores", "masked", "weights", "values",
    "output"), or that of the operation, with a number where it is not the first.
    """

    operation: str
    line: Line | None


class CodeTrace(Trace):
    """The steps of somebody's own code in order, each with its line; where it attends, steps say what they are.

    ``attentions`` has for each attention that was found the names of its steps by role; None is an argument of the
    code, which no step computed.  ``result`` is what the code returned.
    """

    _columns = ("step", "operation", "line", "code", "shape", "mean", "variance")

    def __init__(
        self, steps: Sequence[CodeStep], attentions: Sequence[dict[str, str | None]], result: Any, name: str
    ) -> None:
        self._steps, self.attentions, self.result, self._name = tuple(steps), tuple(attentions), result, name

    @property
    def problem(self) -> Problem:
        """Somebody's own code is no problem of overt's."""
        raise ArgumentError(
            f"these are the steps of {self._name}: print them; for pictures, give q, k and v to overt.trace"
        )

    def __repr__(self) -> str:
        found = len(self.attentions)
        return (
            f"CodeTrace({self._name}, {len(self)} steps, {found or 'no'} attention{'s' * (found != 1)}): "
            "print it to read the steps"
        )

    def _row(self, step: Any) -> tuple[str, ...]:
        number = "" if step.line is None else str(step.line.number)
        code = step.formula if len(step.formula) <= _CODE else step.formula[: _CODE - 1] + "…"
        return step.name, step.operation, number, code, *_summary(step)


def trace_code(function: Callable[..., Any], *args: Any, **kwargs: Any) -> CodeTrace:
    """Run somebody's own code and keep every operation on arrays that it did.

    It runs once; once more where it makes, or may make, arrays of another library of those of NumPy that it was given;
    and once more where it has none: then the numbers of its lists are followed, and what is done alike to many is one
    step.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    # Lists may be longer after a call.
    listed, named, ours = arrays(args), arrays(kwargs), set[int]()
    function = drained(function)
    result, operations = record_operations(function, *args, **kwargs)
    library = library_of(result)
    if not operations and library == "numpy" and "torch" in sys.modules:
        # It may go through tensors and back.
        library = "torch"
    if library not in ("numpy", library_of((args, kwargs, function))):
        result, operations = record_operations(function, *args, _library=library, **kwargs)
    if not operations and any(hasattr(x, "shape") for x in leaves((listed, named))):
        try:
            found, operations, ours = _of_numbers(function, listed, named)
        except Exception:  # What it does with arrays need not be possible with lists.
            operations = []
        # To take numbers out of lists, and to give them back, is to compute nothing.
        operations = operations if any(x.name not in ("index", "array") for x in operations) else []
        result = found if operations else result
    if not operations:
        gave = "None" if result is None else f"an object of type {type(result).__name__}"
        raise ArgumentError(
            f"{name} returned {gave} and did nothing with arrays that could be seen: let it compute something of "
            "arrays of NumPy, torch or JAX, uncompiled"
        )
    # What finds attention in code is loaded when some is traced, so that importing overt stays quick.
    from overt.recorder.roles import roles

    found = roles(operations)
    role: dict[int, str] = {}
    for parts in found.values():
        for what, number in parts.items():
            # What one attention gives may be what the next one takes.
            if number is not None:
                role.setdefault(number, what)
    counts: dict[str, int] = {}
    steps: list[CodeStep] = []
    names: dict[int | None, str] = {}
    for number, operation in enumerate(operations):
        if number in ours:
            continue
        name_of = role.get(number, operation.name)
        counts[name_of] = counts.get(name_of, 0) + 1
        unique = name_of if counts[name_of] == 1 else f"{name_of} #{counts[name_of]}"
        names[number] = unique
        code = "" if operation.line is None else operation.line.text
        steps.append(CodeStep(unique, code, "", operation.array, operation.name, operation.line))
    attentions = [{what: names.get(number) for what, number in parts.items()} for parts in found.values()]
    return CodeTrace(steps, attentions, result, name)


def _of_numbers(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, list[Operation], set[int]]:
    """What a function returns, and what it did with the numbers of lists, given as arrays, as if they were these.

    And the numbers of those operations that are none of its own.
    """
    from overt.recorder.lifting import lifted
    from overt.recorder.lists import lists, on_lists

    result, operations = record_operations(on_lists(function), *args, **kwargs)
    whole = lifted(operations)
    operations = operations if whole is None else whole[0]
    taken = {source for operation in operations for source in operation.sources}
    # What is given back was made an array at the end.
    return lists(result), operations, {n for n, x in enumerate(operations) if x.name == "array" and n not in taken}


def trace(problem: Problem) -> Trace:
    """Compute the definition and keep every step, with the leading axes that the caller's arrays had."""
    for name in "qkv":
        numbered(name, getattr(problem, name))
    return Trace(
        [Step(step.name, step.formula, step.axes, problem.outward(step.array)) for step in reference.steps(problem)],
        problem,
    )


def _size(step: Step) -> int:
    return int(np.prod(step.array.shape))


def _summary(step: Step) -> tuple[str, str, str]:
    shape = " × ".join(map(str, step.array.shape))
    return shape, f"{step.mean:.4g}", f"{step.variance:.4g}"


def _numbers(step: Step) -> str:
    return np.array2string(host(step.name, step.array), precision=4, suppress_small=True, max_line_width=100)
