"""Attention of model libraries, right all of it: ``python -m benchmarks.libraries [--count N] [--seed N]``.

Of every modeling file of the transformers that is installed, the first class with Attention in its name, N drawn of
these: how many can be called, and of how many that are right something wrong is said.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.first_sight import share
from overt.check.checking import examine
from overt.check.session import Session
from overt.errors import OvertError

# What is named so is a part of attention, or a kernel that is not here.
_OTHER = re.compile("Output|Pool|Flash|Sdpa")


def targets() -> list[str]:
    """``module:Class``, in the order of the files."""
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        raise SystemExit("transformers is not installed: pip install transformers")
    found = []
    for file in sorted(Path(spec.origin).parent.glob("models/*/modeling_*.py")):
        classes = re.findall(r"^class (\w*Attention\w*)\(nn\.Module", file.read_text(), re.MULTILINE)
        named = [name for name in classes if not _OTHER.search(name)]
        found += [f"transformers.models.{file.parent.name}.{file.stem}:{name}" for name in named[:1]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    every = targets()
    random.Random(options.seed).shuffle(every)
    called, wrong, seconds = 0, 0, []
    with Session() as session:
        for target in every[: options.count]:
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
            print(f"{target.rpartition('.')[2]}: {said}", flush=True)
    print(f"\ncalled           {share(called, len(seconds))}\nfalse alarms     {share(wrong, called)} of these")
    print(f"seconds          {sorted(seconds)[len(seconds) // 2]:.2f} median, {max(seconds):.2f} longest")


if __name__ == "__main__":
    main()
