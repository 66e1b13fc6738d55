"""One operator or number of right code changed: ``python -m benchmarks.mutants [--folder SET]… [--number N]``.

What is changed lies in the candidate or in what it calls; what was right is then wrong wherever its numbers change.
Defaults of the candidate's own arguments, its constructor's too, are not changed: how many heads, which base, axis or
rate is its caller's choice, and another one is as right.  Defaults of what it calls are its own business.
A mutant counts where the output differs beyond tolerance from that of the original: on the calls that the checker made
once it knew how, and on these with large numbers, with the same weights and tables computed anew.
Of those, the share that is found wrong, and the share whose first line is that of the change; where no number changes,
nothing may be said that is not said of the original.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import random
import resource
import statistics
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.check import CANDIDATES, names
from benchmarks.first_sight import share
from benchmarks.renaming import TOLD, TooLong, answer, calls_of, find, limited, load, same, told, verdict
from overt.check.process.session import Session

OPERATORS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
TOLERANCE = 1e-4
# What numbers of a call are multiplied by to see what overflows.
LARGE = 1e3
# Seconds for all calls of a mutant, since some count in steps of zero, and for a verdict.
PATIENCE = 5.0
VERDICT = 60.0
# Bytes that a mutant may take: a length that is changed may become endless.
MEMORY = 8 << 30


@dataclass(frozen=True)
class Mutant:
    """A change of one place: what it is, on which line, and the file with it."""

    change: str
    line: int
    text: str


def used(tree: ast.Module, name: str) -> list[ast.AST]:
    """The definitions of the file that a candidate reaches by name."""
    own = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    reached, todo = [], [name.split(".")[0]]
    while todo:
        if (node := own.pop(todo.pop(), None)) is not None:
            reached.append(node)
            todo += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return reached


def chosen(definition: ast.AST) -> set[int]:
    """The numbers of a candidate that its caller may choose: defaults of arguments."""
    functions = [definition, *definition.body] if isinstance(definition, ast.ClassDef) else [definition]
    rows = [f.args for f in functions if isinstance(f, ast.FunctionDef)]
    defaults = [d for row in rows for d in (*row.defaults, *row.kw_defaults) if d is not None]
    return {id(node) for default in defaults for node in ast.walk(default)}


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, ast.AST, str]]:
    """Each change of one node: where, which field, what it becomes, in words."""
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp | ast.AugAssign):
            for to in OPERATORS.get(type(part.op), ()):
                yield part, "op", to(), f"{type(part.op).__name__} → {to.__name__}"
        elif isinstance(part, ast.Compare) and len(part.ops) == 1:
            for to in OPERATORS.get(type(part.ops[0]), ()):
                yield part, "ops", to(), f"{type(part.ops[0]).__name__} → {to.__name__}"
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub | ast.Invert):
            yield part, "", part.operand, f"{type(part.op).__name__} dropped"
        elif isinstance(part, ast.Constant) and type(part.value) in (int, float):
            for number in {part.value + 1, part.value * 2, part.value - 1} - {part.value}:
                yield part, "value", ast.Constant(number), f"{part.value} → {number}"


def written(source: str, part: Any, field: str, to: Any) -> str | None:
    """The source with one node changed in place, on lines that stay as they are."""
    if part.lineno != part.end_lineno:
        return None
    changed = copy.deepcopy(part)
    if not field:
        changed = to
    elif field == "ops":
        changed.ops = [to]
    else:
        setattr(changed, field, getattr(to, "value", None) if field == "value" else to)
    lines = source.splitlines(keepends=True)
    row = lines[part.lineno - 1].encode()
    text = ast.unparse(changed)
    if not isinstance(part, ast.AugAssign | ast.Constant):
        text = f"({text})"
    lines[part.lineno - 1] = (row[: part.col_offset] + text.encode() + row[part.end_col_offset :]).decode()
    return "".join(lines)


def mutants(source: str, name: str) -> list[Mutant]:
    made: list[Mutant] = []
    reached = used(ast.parse(source), name)
    free = chosen(reached[0]) if reached else set()
    for definition in reached:
        for part, field, to, change in changes(definition):
            if id(part) in free:
                continue
            text = written(source, part, field, to)
            # Inside a formatted string the tree has no columns.
            with contextlib.suppress(SyntaxError):
                if text is not None and ast.dump(ast.parse(text)) != ast.dump(ast.parse(source)):
                    made.append(Mutant(change, part.lineno, text))  # type: ignore[attr-defined]
    return made


def near(a: object, b: object) -> bool:
    """Whether two answers are the same up to rounding."""
    if isinstance(a, torch.Tensor | np.ndarray) and isinstance(b, torch.Tensor | np.ndarray):
        x, y = (np.asarray(z.detach().double() if isinstance(z, torch.Tensor) else z) for z in (a, b))
        return x.shape == y.shape and bool(
            np.allclose(x.astype(complex), y.astype(complex), TOLERANCE, TOLERANCE, equal_nan=True)
        )
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    return same(a, b)


def loud(call: Any) -> Any:
    """A recorded call with large numbers in the place of its arrays."""
    if isinstance(call, torch.Tensor):
        return call * LARGE if call.is_floating_point() else call
    if isinstance(call, np.ndarray):
        return call * np.asarray(LARGE, call.dtype) if call.dtype.kind == "f" else call
    if isinstance(call, dict):
        return {key: loud(value) for key, value in call.items()}
    return type(call)(map(loud, call)) if type(call) in (list, tuple) else call


def right_ones(folders: list[Path]) -> list[tuple[Path, str]]:
    """The candidates that are right: those of the tests, and of the sets."""
    found = []
    for path in sorted(CANDIDATES.glob("*.py")):
        if path.stem != "keras_layers" and names(path):
            expected = load(path, f"{path.stem}_expected").EXPECTED
            found += [(path, name) for name in expected if not expected[name]]
    for folder in folders:
        answers = json.loads((folder / "answers.json").read_text())
        found += [(folder / file, entry["target"]) for file, entry in answers.items() if entry["answer"] == "right"]
    return found


@dataclass(frozen=True)
class Outcome:
    """What the checker said of one mutant."""

    name: str
    mutant: Mutant
    differs: bool
    # found, missed; for one without a difference quiet, accused; for both asked, endless
    kind: str
    line: bool | None
    said: str
    seconds: float


def judge(session: Session, path: Path, name: str, number: int, seed: int, into: Path) -> Iterator[Outcome]:
    """Some mutants of one candidate: as many as asked for of those that still run."""
    source = path.read_text()
    original, _ = told(session, f"{path}:{name}")
    if original is None or not original.ok:
        return
    tag = f"{path.parent.name}_{path.stem}_{name.replace('.', '_')}"
    module = load(path, f"{tag}_right")
    # Calls that the original cannot answer tell nothing.
    recorded = calls_of(module, name)
    recorded += [(*call[:3], *loud(call[3:])) for call in recorded]
    answered = [(call, answer(find(module, name), call, {}, computed=True)) for call in recorded]
    calls, before = ([pair[i] for pair in answered if not isinstance(pair[1], str)] for i in (0, 1))
    if not calls:
        return
    drawn = mutants(source, name)
    random.Random(zlib.crc32(f"{seed}{tag}".encode())).shuffle(drawn)
    done = 0
    for i, mutant in enumerate(drawn):
        if done == number:
            return
        file = into / f"{tag}_{i}.py"
        file.write_text(mutant.text)
        try:
            with limited(PATIENCE):
                changed = load(file, f"{tag}_{i}")
                after = [answer(find(changed, name), call, {}, computed=True) for call in calls]
        except (Exception, TooLong):
            continue
        # What raises is found by running it once.
        if any(isinstance(one, str) for one in after):
            continue
        done += 1
        differs = not all(map(near, before, after))
        start = time.perf_counter()
        try:
            with limited(VERDICT):
                report, asked = told(session, f"{file}:{name}")
        except TooLong:
            # The session has an answer coming that nobody waits for.
            yield Outcome(f"{path.stem}:{name}", mutant, differs, "endless", None, "", time.perf_counter() - start)
            return
        seconds = time.perf_counter() - start
        wrong = verdict(report)[1]
        if report is None:
            kind = "asked"
        elif differs:
            kind = "missed" if report.ok else "found"
        else:
            kind = "quiet" if report.ok else "accused"
        first = next((f.where for f in report.findings if f.kind not in TOLD), None) if report else None
        line = (first is not None and first["line"] == mutant.line) if kind == "found" else None
        yield Outcome(f"{path.stem}:{name}", mutant, differs, kind, line, asked or " ".join(sorted(wrong)), seconds)


def table(outcomes: list[Outcome]) -> str:
    changed = [o for o in outcomes if o.differs]
    still = [o for o in outcomes if not o.differs]
    count = Counter(o.kind for o in changed)
    quiet = Counter(o.kind for o in still)
    lines = [o.line for o in changed if o.line is not None]
    seconds = [o.seconds for o in outcomes]
    return "\n".join(
        [
            f"mutants with other numbers   {len(changed)}",
            f"  found                      {share(count['found'], len(changed))}",
            f"  called right               {count['missed']}",
            f"  could not be called        {count['asked']}",
            f"  no verdict in {VERDICT:.0f} seconds   {count['endless']}",
            f"  right line first           {share(lines.count(True), len(lines))}",
            f"mutants with the same        {len(still)}",
            f"  called right               {share(quiet['quiet'], len(still))}",
            f"  accused                    {quiet['accused']}",
            f"  could not be called        {quiet['asked']}",
            f"  no verdict in {VERDICT:.0f} seconds   {quiet['endless']}",
            f"seconds                      {statistics.median(seconds):.2f} median, {max(seconds):.2f} longest",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, action="append", default=[], help="a set with answers.json; may repeat")
    parser.add_argument("--number", type=int, default=3, help="mutants of each candidate")
    parser.add_argument("--candidates", type=int, help="so many candidates, drawn by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name what was missed, accused or put on another line")
    options = parser.parse_args()
    chosen = right_ones([folder.resolve() for folder in options.folder])
    if options.candidates:
        chosen = random.Random(options.seed).sample(chosen, min(options.candidates, len(chosen)))
    outcomes = []
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, name in chosen:
            with Session() as session:
                outcomes += judge(session, path, name, options.number, options.seed, Path(folder))
            if options.list:
                print(f"{path.stem}:{name}, {len(outcomes)} mutants so far", flush=True)
    print(f"seed {options.seed}, {len(chosen)} right candidates, up to {options.number} mutants of each\n")
    print(table(outcomes))
    for o in outcomes if options.list else ():
        if o.kind in ("missed", "accused", "asked", "endless") or o.line is False:
            print(f"  {o.name}, line {o.mutant.line}, {o.mutant.change}: {o.kind}; {o.said}")


if __name__ == "__main__":
    main()
