"""Seconds that ``overt check`` takes, over the candidates of the tests: ``python -m benchmarks.check``."""

from __future__ import annotations

import ast
import statistics
import time
from pathlib import Path

from overt.check.checking import examine
from overt.check.session import Session

CANDIDATES = Path(__file__).parents[1] / "tests" / "check_candidates"


def names(file: Path) -> list[str]:
    """The candidates of a file: the keys of its table of expectations, or the functions and classes it checks."""
    tree = ast.parse(file.read_text())
    return [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != "Result"
    ]


def main() -> None:
    print(f"{'candidates':20s} {'number':>7s} {'median':>8s} {'longest':>8s}")
    for file in sorted(CANDIDATES.glob("*.py")):
        seconds = []
        with Session() as session:
            for name in names(file):
                start = time.perf_counter()
                try:
                    examine(session, f"{file}:{name}")
                except ValueError:
                    # Not a candidate, but a function that one of them calls.
                    continue
                seconds.append(time.perf_counter() - start)
        print(f"{file.stem:20s} {len(seconds):7d} {statistics.median(seconds):7.2f}s {max(seconds):7.2f}s")


if __name__ == "__main__":
    main()
