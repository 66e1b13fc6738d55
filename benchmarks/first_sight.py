"""How often ``overt check`` is right on code it has not met: ``python -m benchmarks.first_sight FOLDER…``.

A folder holds candidates and an answers.json: for each file its ``target``, its ``answer`` ("right", a list of
mistakes, "unknown" for what the catalogue has not, "none" where there is no attention inside), the ``lines`` of each
mistake, and what may be told ``also``, since it is true of the code beside the answer.  ``--list`` names what was not
exact, which ends the set's life as one that nobody has seen; ``--unnamed`` gives the checker the file without the name
of the target.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report
from overt.errors import OvertError

# What is wrong only at the edge, or only elsewhere, and may be told of any candidate.
TOLD = ("convention", "risk")
OUTCOMES = {
    "exact": "exact",
    "near": "the mistake, and another beside it or one of two missed",
    "unnamed": "wrong, without the reason",
    "other": "wrong, for another reason",
    "missed": "wrong, and called right",
    "asked": "could not be called",
    "alarm": "right, and called wrong",
}


@dataclass(frozen=True)
class Judged:
    """The verdict on one candidate beside its answer."""

    candidate: str
    right: bool
    outcome: str
    line: bool | None
    seconds: float
    found: str


def outcome(answer: str | list[str], also: set[str], report: Report | None) -> str:
    """One of OUTCOMES; report is None where the checker asked."""
    if answer == "none":
        return "exact" if report is None else "missed" if report.ok else "other"
    if report is None:
        return "asked"
    told = {f.id for f in report.findings}
    wrong = {f.id for f in report.findings if f.kind not in TOLD} - also
    named = {f.id for f in report.findings if f.kind == "mistake"} - also
    if answer == "right":
        return "alarm" if wrong else "exact"
    if answer == "unknown":
        return "missed" if report.ok else "other" if named else "exact"
    expected = set(answer)
    if expected <= told and wrong <= expected:
        return "exact"
    if report.ok and not expected & told:
        return "missed"
    if expected & told:
        return "near"
    return "other" if named else "unnamed"


def line_found(report: Report, answer: list[str], lines: dict[str, list[int]]) -> bool | None:
    """Whether each mistake that was found points at one of its lines; None where none that was found has a line."""
    found = [(f.id, f.where) for f in report.findings if f.id in answer]
    if not found:
        return None
    return all(where is not None and where["line"] in lines[name] for name, where in found)


def judge(folder: Path, *, unnamed: bool) -> Iterator[Judged]:
    with Session() as session:
        for file, entry in json.loads((folder / "answers.json").read_text()).items():
            target = f"{folder / file}" if unnamed else f"{folder / file}:{entry['target']}"
            start = time.perf_counter()
            try:
                report, said = examine(session, target), ""
            except OvertError as error:
                report, said = None, str(error)
            seconds = time.perf_counter() - start
            answer = entry["answer"]
            if report is not None:
                said = " ".join(sorted(f"{f.id}({f.kind})" for f in report.findings)) or "right"
            line = None
            if report is not None and isinstance(answer, list):
                line = line_found(report, answer, entry["lines"])
            kind = outcome(answer, set(entry.get("also", ())), report)
            yield Judged(f"{folder.name}/{file}", answer == "right", kind, line, seconds, f"{answer}: {said}")


def wilson(hits: int, total: int) -> tuple[float, float]:
    """The 95 % confidence interval of a share.  Wilson 1927."""
    z = 1.959963984540054
    p = hits / total
    middle = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def share(hits: int, total: int) -> str:
    if not total:
        return "0 of 0"
    low, high = wilson(hits, total)
    return f"{hits} of {total} = {hits / total:.1%} (95 %: {low:.1%} to {high:.1%})"


def table(judged: list[Judged]) -> str:
    counts = Counter(j.outcome for j in judged)
    right = [j for j in judged if j.right]
    lines = [j.line for j in judged if j.line is not None]
    uncalled = sum(j.outcome == "asked" for j in right)
    seconds = [j.seconds for j in judged]
    return "\n".join(
        [
            f"exact            {share(counts['exact'], len(judged))}",
            *(f"{name:16s} {counts[name]:3d}  {meaning}" for name, meaning in OUTCOMES.items() if name != "exact"),
            f"false alarms     {share(counts['alarm'], len(right))} of the right ones ({uncalled} not called)",
            f"wrong line       {lines.count(False)} of {len(lines)} mistakes that were named",
            f"seconds          {statistics.median(seconds):.2f} median, {max(seconds):.2f} longest",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--list", action="store_true", help="name what was not exact, or has the wrong line")
    parser.add_argument("--unnamed", action="store_true", help="give the file without the name of the target")
    options = parser.parse_args()
    everything = []
    for folder in options.folders:
        judged = list(judge(folder.resolve(), unnamed=options.unnamed))
        everything += judged
        print(f"\n## {folder.name}: {len(judged)} candidates, {sum(j.right for j in judged)} of them right\n")
        print(table(judged), flush=True)
        for j in judged if options.list else ():
            if j.outcome != "exact" or j.line is False:
                print(f"  {j.candidate}: {j.outcome}{', wrong line' if j.line is False else ''}; {j.found}")
    if len(options.folders) > 1:
        print(f"\n## all: {len(everything)} candidates, {sum(j.right for j in everything)} of them right\n")
        print(table(everything))


if __name__ == "__main__":
    main()
