"""Seconds that ``overt check`` takes, over the candidates of the tests: ``python -m benchmarks.check``."""

from __future__ import annotations

import ast
import statistics
import time
from pathlib import Path

from overt.check.checking import examine
from overt.check.process.session import Session

CANDIDATES = Path(__file__).parents[1] / "tests" / "check_candidates"


def names(file: Path) -> list[str]:
    """The candidates of a file: the keys of its table of expectations."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXPECTED":
            keys = node.value.keys if isinstance(node.value, ast.Dict) else ast.walk(node.value)
            return [key.value for key in keys if isinstance(key, ast.Constant) and key.value]
    return []


def main() -> None:
    print(f"{'candidates':20s} {'number':>7s} {'median':>8s} {'longest':>8s}")
    for file in sorted(CANDIDATES.glob("*.py")):
        if not (candidates := names(file)):
            continue
        seconds = []
        with Session() as session:
            for name in candidates:
                start = time.perf_counter()
                examine(session, f"{file}:{name}")
                seconds.append(time.perf_counter() - start)
        print(f"{file.stem:20s} {len(seconds):7d} {statistics.median(seconds):7.2f}s {max(seconds):7.2f}s")


if __name__ == "__main__":
    main()
