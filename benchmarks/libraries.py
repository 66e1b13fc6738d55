"""Attention of libraries, right nearly all of it: ``python -m benchmarks.libraries [PACKAGE…] [--count N] [--seed N]``.

Of what ``overt check FOLDER`` finds in the installed packages that are named, N drawn by chance, one of each name since
much of such packages is copied: how many can be called, and of how many of these something wrong is said, which
somebody has to look at.
"""

from __future__ import annotations

import argparse
import random
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.first_sight import share
from overt.check.checking import examine
from overt.check.discovery import discover
from overt.check.process.session import Session
from overt.errors import OvertError


def folder(package: str) -> Path:
    """Where an installed package lies."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed: pip install {package}")
    return Path(spec.origin).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=["transformers"])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    every = [(target, place.parent) for place in map(folder, options.packages) for target in discover(place)]
    random.Random(options.seed).shuffle(every)
    every = list({target.rpartition(":")[2]: (target, beside) for target, beside in every}.values())
    called, wrong, seconds = 0, 0, []
    with Session() as session:
        for target, beside in every[: options.count]:
            start = time.perf_counter()
            try:
                report = examine(session, target)
            except OvertError as error:
                said = f"not called: {str(error)[:160]}"
            else:
                called, wrong = called + 1, wrong + (not report.ok)
                ids = [finding.id for finding in report.findings]
                said = ("right" if report.ok else "WRONG") + (f" ({', '.join(ids)})" if ids else "")
            seconds.append(time.perf_counter() - start)
            print(f"{target.removeprefix(f'{beside}/')}: {said} [{seconds[-1]:.1f} s]", flush=True)
    print(f"\ncalled           {share(called, len(seconds))} of {len(every)} that were found")
    print(f"said wrong       {share(wrong, called)} of these")
    print(f"seconds          {sorted(seconds)[len(seconds) // 2]:.2f} median, {max(seconds):.2f} longest")


if __name__ == "__main__":
    main()
