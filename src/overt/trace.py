"""Every intermediate of attention, in order, to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Generic, overload

import numpy as np

from overt import reference
from overt.grid import ArrayT, host
from overt.problem import Problem
from overt.reference import Step

# Larger arrays are summarised by their mean and variance alone.
_SMALL = 64


class Trace(Sequence[Step], Generic[ArrayT]):
    """Named steps in order: ``trace["weights"]`` is the array, ``trace.step("weights")`` all about it."""

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
        rows = [("step", "formula", "axes", "shape", "mean", "variance"), *map(_row, self._steps)]
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
        head = "".join(
            f"<th>{name}</th>" for name in ("step", "formula", "axes", "shape", "mean", "variance", "numbers")
        )
        body = "".join(
            "<tr>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in _row(step))
            + f"<td><pre>{escape(_numbers(step)) if _size(step) <= _SMALL else '…'}</pre></td></tr>"
            for step in self._steps
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def trace(problem: Problem) -> Trace:
    """Compute the definition and keep every step, with the leading axes that the caller's arrays had."""
    return Trace(
        [Step(step.name, step.formula, step.axes, problem.outward(step.array)) for step in reference.steps(problem)],
        problem,
    )


def _size(step: Step) -> int:
    return int(np.prod(step.array.shape))


def _row(step: Step) -> tuple[str, ...]:
    shape = " × ".join(map(str, step.array.shape))
    return step.name, step.formula, step.axes, shape, f"{step.mean:.4g}", f"{step.variance:.4g}"


def _numbers(step: Step) -> str:
    return np.array2string(host(step.name, step.array), precision=4, suppress_small=True, max_line_width=100)
