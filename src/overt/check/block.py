"""One function, or one method of an object, that is a part of attention: how the checker calls it."""

from __future__ import annotations

from typing import Any

import numpy as np

from overt.check.attention import difference
from overt.check.findings import Findings
from overt.check.interface import Interface
from overt.check.report import Kind
from overt.check.search import LOOSE
from overt.check.session import Here, Session

Arrays = dict[str, np.ndarray]


class Block:
    """Calls one function with arrays and numbers by role."""

    def __init__(self, session: Session | Here, face: Interface, findings: Findings, handle: int | None = None) -> None:
        self.session, self.face, self.findings, self.handle = session, face, findings, handle
        self.error: dict[str, Any] | None = None

    def call(self, *values: Any, **roles: Any) -> list[np.ndarray] | None:
        """Outputs for arguments in order, or by role; None where it raises."""
        arrays: Arrays = {}
        if self.handle is not None:
            values = values[: len(self.face.arguments)]

        def spec(name: str, value: Any) -> dict[str, Any]:
            if isinstance(value, np.ndarray):
                arrays[name] = value
                return {"array": name}
            return {"value": value}

        args, kwargs = [spec(f"a{n}", v) for n, v in enumerate(values)], {}
        for a in self.face.arguments[len(values) :]:
            if a.role in roles:
                kwargs[a.name] = spec(a.name, roles[a.role])
        one = {
            "args": args,
            "kwargs": kwargs,
            "backend": self.face.description["backend"],
            "still": True,
            "train": False,
        }
        if self.handle is not None:
            one["method"] = self.face.description["method"]
        reply, found = self.session.ask({"op": "call", "handle": self.handle, "calls": [one]}, arrays)
        first = reply["replies"][0] if "replies" in reply else reply
        if "error" in first:
            self.error = first["error"]
            return None
        if first["changed"]:
            self.findings.add("inplace")
        return [found[o["key"]] for o in first["outputs"]]

    def wrong(self, name: str, *outputs: np.ndarray) -> None:
        """It differs from the reference, for an unknown reason."""
        if self.error is not None and not outputs:
            self.findings.raised(None, self.error)
        else:
            self.findings.add(
                "unknown", kind="unknown", message=f"This {name} gives wrong numbers, and no known mistake gives them."
            )

    def tell(self, name: str, expected: np.ndarray, *values: Any, kind: Kind | None = None) -> None:
        """A mistake with a small input; the example is left out where the input does not show it."""
        got = self.call(*values)
        example = None
        if got and (got[0].shape != expected.shape or difference(got[0], expected) > 1e-6):
            given = {"input" if n == 0 else "number": shown(value) for n, value in enumerate(values)}
            example = {**given, "expected": shown(expected), "actual": shown(got[0])}
        self.findings.add(name, kind=kind, example=example)

    def required(self) -> int:
        return sum(a.required for a in self.face.arguments)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in shape and in numbers."""
    return a.shape == b.shape and difference(a.astype(float), b.astype(float)) < LOOSE


def shown(value: Any) -> str:
    """A small array in one line a row, without the axes of 1 before the last two."""
    array = np.asarray(value)
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    return np.array2string(array.astype(int) if array.dtype == bool else array, precision=4, separator=", ")
