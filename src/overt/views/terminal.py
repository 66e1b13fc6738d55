"""Attention in a terminal: heat maps in half blocks, the strongest pairs, and traces step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import StringIO

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from overt.errors import ArgumentError
from overt.grid import host, whole
from overt.reference import Step
from overt.trace import Trace
from overt.views import paper as papers
from overt.views.colors import Scale
from overt.views.labels import Labelled
from overt.views.paper import Paper
from overt.views.subject import Subject

# Lines of one heat map, and rows of one table of numbers.
_LINES = 28
_ROWS = 40
_LABEL = 14
# Numbers of a step that are printed one by one.
_SMALL = 160
_PAIRS = 8
# The widest cell of a matrix that is no table of numbers, and of a small picture.
_CELL, _SMALL_CELL = 6, 4


def show(
    view: Subject,
    *,
    head: int | None = None,
    row: int = 0,
    query: int | None = None,
    log: bool = False,
    console: Console | None = None,
) -> None:
    """Print a view as wide as the window."""
    paper = papers.of(console or Console(highlight=False))
    for renderable in _view(view, paper, head, row, query, log):
        paper.console.print(renderable)


def text(view: Subject, width: int = 100) -> str:
    """A view without colours."""
    # In a notebook rich would show it at once and give nothing.
    console = Console(file=StringIO(), width=width, highlight=False, color_system=None, force_jupyter=False)
    show(view, console=console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def _view(
    view: Subject, paper: Paper, head: int | None, row: int, query: int | None, log: bool
) -> Iterator[RenderableType]:
    for part in view.parts:
        shape = part.problem.shape
        places = {"row": (row, shape.B), "head": (head, shape.H), "query": (query, shape.T)}
        for name, (value, count) in places.items():
            if (value is not None or name == "row") and not 0 <= whole(name, value) < count:
                raise ArgumentError(f"there is no {name} {value}: give 0…{count - 1}")
    if view.trace is not None and query is None:
        yield from _trace(view.trace, view.parts[0], paper, head or 0, row, log)
        return
    tops = [tuple(_per_head(part, x)[row] for x in part.seen.top(min(3, part.problem.shape.S))) for part in view.parts]
    # All that is printed has one scale.
    own, asked = (slice(None) if one is None else slice(one, one + 1) for one in (head, query))
    largest = max(float(weights[own, asked].max(initial=0)) for _, weights in tops)
    scale = Scale.of(largest, max(part.problem.shape.S for part in view.parts), log=log)
    for part, top in zip(view.parts, tops, strict=True):
        yield Text(_heading(part, row, head), style="bold")
        heads = range(part.problem.shape.H) if head is None else (head,)
        if query is not None:
            for h in heads:
                yield _query(part, row, h, query, paper, scale)
            yield paper.legend("weight", scale, masked=False)
            continue
        if len(heads) == 1:
            yield from _head(part, paper, row, heads[0], scale)
        else:
            yield from _overview(part, paper, row, scale)
        yield _pairs(part, row, heads, *top)
        yield Text("")


def _heading(part: Labelled, row: int, head: int | None) -> str:
    shape = part.problem.shape
    where = f"{part.title} · " if part.title else ""
    batch = f"row {row} of {shape.B} · " if shape.B > 1 else ""
    heads = _count(shape.H, "head") if head is None else f"head {head} of {shape.H}"
    return f"{where}{batch}{heads} · {_count(shape.T, 'query')} × {_count(shape.S, 'key')}"


def _count(n: int, noun: str) -> str:
    many = {"query": "queries"}.get(noun, noun + "s")
    return f"{n:,} {noun if n == 1 else many}"


def _head(part: Labelled, paper: Paper, row: int, head: int, scale: Scale) -> Iterator[RenderableType]:
    T, S = part.problem.shape.T, part.problem.shape.S
    label = min(_LABEL, max(cell_len(part.query(t)) for t in range(min(T, 4096)))) + 1
    width = max(6, min(_LABEL, max(cell_len(part.key(s)) for s in range(min(S, 4096)))) + 1)
    room = (paper.width - label - 1) // S
    if T <= _ROWS and label + S * width + 9 <= paper.width:
        yield _numbers(part, row, head, label, width, paper, scale)
    elif T <= _ROWS and room >= 2:
        yield _shaded(part, row, head, label, min(room, _CELL), paper, scale)
    else:
        yield _blocks(part, row, head, label if T <= 2 * _LINES else len(str(T)) + 1, paper, scale)
    entropy = _per_head(part, part.seen.entropy())[row, head]
    received = _per_head(part, part.seen.received())[row, head]
    most = np.argsort(-received, kind="stable")[:3]
    keys = ", ".join(f"{clipped(part.key(s), 20)} {received[s]:.3g}" for s in most)
    yield Text(f"entropy {entropy.mean():.3f} nats on average, {abs(entropy.min()):.3f} … {entropy.max():.3f}")
    yield Text(f"most received by {keys}")


def _query(part: Labelled, row: int, head: int, query: int, paper: Paper, scale: Scale) -> Text:
    """What one query looked at: all keys shaded, if they are few, and the heaviest."""
    problem, visible = part.problem, part.visible(row, head, query)[0]
    at = np.unravel_index(row * problem.shape.H + head, problem.outer) if problem.outer else ()
    w = host("weights", part.seen.weights[(*at, query)])
    entropy = abs(_per_head(part, part.seen.entropy())[row, head, query])
    text = Text().append(f"head {head}  " if problem.shape.H > 1 else "", "dim")
    text.append(clipped(part.query(query), 30)).append(f" ({query}), entropy {entropy:.3f} nats\n", "dim")
    level = scale.level(w)
    if len(w) <= _SMALL:
        for color, s in zip(paper.shades(level), range(len(w)), strict=True):
            text.append(clipped(part.key(s), 30), papers.on(color) if visible[s] else Style(dim=True)).append(" ")
        text.append("\n")
    for s in np.argsort(-w, kind="stable")[:_PAIRS]:
        if visible[s]:
            bar = "█" * round(20 * float(level[s]))
            text.append(f"  {w[s]:.4f}  ").append(bar.ljust(20), papers.rgb(paper.shades(np.array(0.6)))).append(
                f"  {clipped(part.key(s), 30)}"
            )
            text.append(f"  ({s})\n" if part.keys is not None else "\n", "dim")
    return text


def _numbers(part: Labelled, row: int, head: int, label: int, width: int, paper: Paper, scale: Scale) -> Text:
    """Every weight as a number on its shade, queries down, keys across."""
    w, visible = _tile(part, row, head)
    colors = paper.shades(scale.level(w))
    entropy = _per_head(part, part.seen.entropy())[row, head]
    table = Text(" " * label)
    for s in range(w.shape[1]):
        table.append(_right(part.key(s), width))
    table.append("   entropy\n", "dim")
    for t in range(w.shape[0]):
        table.append(_left(part.query(t), label))
        for s in range(w.shape[1]):
            cell = f"{w[t, s]:.3f}" if visible[t, s] else "·"
            table.append(cell.rjust(width), papers.on(colors[t, s]) if visible[t, s] else Style(dim=True))
        table.append(f"   {entropy[t]:.3f}\n", "dim")
    # What is faint there can be read.
    return table.append(paper.legend("weight", scale, masked=not visible.all()))


def _shaded(part: Labelled, row: int, head: int, label: int, width: int, paper: Paper, scale: Scale) -> Text:
    """Every weight as a shade, queries down, keys across."""
    w, visible = _tile(part, row, head)
    table = Text()
    for t, line in enumerate(_cells(scale.level(w), visible, width, paper)):
        table.append(_left(part.query(t), label)).append(line).append("\n")
    table.append(" " * label + _ticks(part, w.shape[1], width) + "\n", "dim")
    table.append(_legend(w, visible, paper, scale))
    return table.append("\n" + _pooling(*w.shape, *w.shape), "dim")


def _blocks(part: Labelled, row: int, head: int, label: int, paper: Paper, scale: Scale) -> Text:
    """The whole matrix, pooled to the window: two rows of cells a line."""
    T, S = part.problem.shape.T, part.problem.shape.S
    columns, rows = min(S, max(paper.width - label - 1, 8)), min(T, 2 * _LINES)
    pooled = _per_head(part, part.seen.map(rows, columns))[row, head]
    visible = part.visible_bins(row, head, rows, columns)
    lines = _picture(scale.level(pooled), visible, paper)
    step = 2 if len(lines) < rows else 1
    table = Text()
    for i, line in enumerate(lines):
        # A line that stands for many queries bears a position, not the name of one of them.
        t = i * step * T // rows
        table.append(_left(part.query(t) if rows == T else str(t), label), "dim").append(line).append("\n")
    table.append(" " * label + _ticks(part, columns) + "\n", "dim")
    table.append(_legend(pooled, visible, paper, scale))
    lines_each = rows if paper.coloured else len(lines)
    return table.append("\n" + _pooling(T, S, lines_each, columns), "dim")


def _legend(weights: np.ndarray, visible: np.ndarray, paper: Paper, scale: Scale) -> Text:
    """What the shades of a picture stand for, and how to see what is too faint."""
    line = paper.legend("weight", scale, masked=not visible.all())
    hint = scale.hint(weights)
    return line.append(f"\n{hint}" if hint else "")


def _pooling(T: int, S: int, rows: int, columns: int) -> str:
    """Where its axes go, and of how many weights a cell is the largest."""
    each = f", each cell the largest of {-(-T // rows)} × {-(-S // columns)}" if (rows, columns) != (T, S) else ""
    return f"queries ↓ keys →{each}"


def _overview(part: Labelled, paper: Paper, row: int, scale: Scale) -> Iterator[RenderableType]:
    """All heads, small, side by side, on one scale."""
    T, S, H = part.problem.shape.T, part.problem.shape.S, part.problem.shape.H
    size = min(32, max(8, (paper.width - 2) // 4 - 2))
    entropy = _per_head(part, part.seen.entropy())[row].mean(axis=-1)
    rows, columns = min(T, size), min(S, size)
    # The fewer the heads and their cells, the wider these.
    wide = min(_SMALL_CELL, (paper.width // min(H, 4) - 2) // S)
    pooled = _per_head(part, part.seen.map(rows, columns))[row]
    level = scale.level(pooled)
    visible = np.stack([part.visible_bins(row, head, rows, columns) for head in range(H)])
    wider = wide >= 2 and rows == T
    pictures = []
    for head in range(H):
        title = Text(f"head {head}, {entropy[head]:.2f} nats\n", "dim")
        lines = (
            _cells(level[head], visible[head], wide, paper) if wider else _picture(level[head], visible[head], paper)
        )
        for line in lines:
            title.append(line).append("\n")
        pictures.append(title)
    yield Columns(pictures, padding=(0, 2))
    yield _legend(pooled, visible, paper, scale)
    shown = rows if wider or paper.coloured else -(-rows // 2)
    yield Text(_pooling(T, S, shown, columns), "dim")
    yield Text(f"nats: entropy of the queries on average, at most {np.log(S):.2f}", "dim")


def _cells(level: np.ndarray, visible: np.ndarray, width: int, paper: Paper) -> list[Text]:
    """One row of cells a line, each of this width."""
    lines = []
    for shades, seen in zip(level, visible, strict=True):
        line = Text()
        for shade, there in zip(shades, seen, strict=True):
            line.append(*(paper.cell(shade, width) if there else paper.hidden(width)))
        lines.append(line)
    return lines


def _picture(level: np.ndarray, visible: np.ndarray, paper: Paper) -> list[Text]:
    """Two rows of cells a line, in half blocks."""
    odd = len(level) % 2
    if odd:
        level, visible = (np.concatenate([x, np.zeros_like(x[:1])]) for x in (level, visible))
    if not paper.coloured:
        # Without colours a line is one row of shades: the darker of its two.
        steps = papers.grey(np.maximum(level[::2], level[1::2]))
        return [
            Text("".join(papers.GREYS[i] if i or seen else papers.DOT for i, seen in zip(line, there, strict=True)))
            for line, there in zip(steps, visible[::2] | visible[1::2], strict=True)
        ]
    colors = np.where(visible[..., None], paper.shades(level), paper.blank)
    lines = []
    for i in range(0, len(level), 2):
        line = Text()
        # Below a last single row there is nothing.
        alone = odd and i == len(level) - 2
        for j in range(level.shape[1]):
            if not alone and not visible[i : i + 2, j].any():
                line.append(papers.HATCH, paper.masked)
                continue
            below = None if alone else papers.rgb(colors[i + 1, j])
            line.append("▀", Style(color=papers.rgb(colors[i, j]), bgcolor=below))
        lines.append(line)
    return lines


def _ticks(part: Labelled, columns: int, width: int = 1) -> str:
    """Names of some keys under the map, as many as have room."""
    S, line = part.problem.shape.S, ""
    for column in range(columns):
        s, at = column * S // columns, column * width
        name = clipped(part.key(s) if columns == S else str(s), _LABEL)
        if at >= cell_len(line) + (1 if line else 0) and at + cell_len(name) <= columns * width:
            line = set_cell_size(line, at) + name
    return line


def _pairs(part: Labelled, row: int, heads: range | tuple[int, ...], indices: np.ndarray, weights: np.ndarray) -> Text:
    """The heaviest pairs of a query that had a choice and a key."""
    shape = part.problem.shape
    chosen = [h for h in range(shape.H) if h in heads]
    flat = np.argsort(-weights[chosen], axis=None, kind="stable")
    table, found = Text().append("strongest pairs\n", "bold"), 0
    for place in flat[: 64 * _PAIRS]:
        h, t, i = np.unravel_index(place, weights[chosen].shape)
        h = chosen[h]
        if not weights[h, t, i] or (shape.S > 1 and part.visible(row, h, int(t)).sum() == 1):
            continue
        name = f"head {h}  " if shape.H > 1 else ""
        table.append(f"  {weights[h, t, i]:.4f}  ").append(name, "dim")
        table.append(f"{clipped(part.query(t), 30)} → {clipped(part.key(indices[h, t, i]), 30)}")
        table.append(f"  ({t} → {indices[h, t, i]})\n" if part.keys is not None else "\n", "dim")
        found += 1
        if found == _PAIRS:
            break
    if not found:
        what = "no query may see any key" if not weights.any() else "every query sees a single key"
        table.append(f"  {what}\n")
    table.rstrip()
    return table


def _tile(part: Labelled, row: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """All weights of one small head, and which cells may be seen."""
    return _per_head(part, part.seen.weights[...])[row, head], part.visible(row, head)


def _trace(trace: Trace, part: Labelled, paper: Paper, head: int, row: int, log: bool) -> Iterator[RenderableType]:
    shape = part.problem.shape
    if shape.H > 1 or shape.B > 1:
        yield Text(f"head {head} of {shape.H}, row {row} of {shape.B}", "dim")
    before: Step | None = None
    for number, step in enumerate(trace, 1):
        array = host(step.name, step.array)
        own = array.ndim - len(step.axes.split())
        array = array.reshape(shape.B, shape.H, *array.shape[own:])[row, head]
        # What is said of it is said of this head alone.
        step = replace(step, array=array)
        sizes = " × ".join(f"{axis} {n}" for axis, n in zip(step.axes.split(), array.shape, strict=True))
        title = Text().append(f"{number:2} ", "dim").append(step.name, "bold").append(f" = {step.formula}", "cyan")
        facts = f"   {sizes}   mean {step.mean:.4g}, variance {step.variance:.4g}"
        # What has no room beside the formula stands below it.
        apart = "\n" if cell_len(title.plain + facts) > paper.width else ""
        yield title.append(apart + facts, "dim")
        if step.name == "scaled" and before is not None and before.variance:
            width = part.problem.q.shape[-1]
            how = f"multiplies it by {step.variance / before.variance:.4g}"
            if getattr(part.problem.score, "scale", 0) is None:
                how = f"1/√{width} divides it by {width}"
            yield Text(f"   variance {before.variance:.4g} → {step.variance:.4g}: the scale {how}", "italic")
        yield _array(step, part, paper, row, head, log)
        before = step


def _array(step: Step, part: Labelled, paper: Paper, row: int, head: int, log: bool) -> Text:
    """The numbers of a small array with names; what a large one spans."""
    array, axes = step.array, step.axes.split()
    table = array.reshape(-1, 1) if array.ndim == 1 else array
    names = part.query if axes[0] == "T" else part.key
    label = min(_LABEL, max(cell_len(names(i)) for i in range(min(len(table), 4096)))) + 1
    names_across = (
        [part.key(s) for s in range(part.problem.shape.S)] if axes[1:] == ["S"] and table.size <= _SMALL else []
    )
    widest = max((min(_LABEL, cell_len(name)) for name in names_across), default=0)
    # Fewer digits before no numbers at all.
    for digits in (4, 3, 2):
        cells = (
            [[_number(x, digits) for x in line] for line in table] if table.ndim == 2 and table.size <= _SMALL else []
        )
        width = 2 + max([widest, *(len(cell) for line in cells for cell in line)])
        if cells and 3 + label + len(cells[0]) * width <= paper.width:
            break
    else:
        finite = array[np.isfinite(array)]
        if not finite.size:
            return Text("   nothing finite" if array.size else "   no numbers")
        return Text(f"   {finite.size:,} finite numbers, {finite.min():.4g} … {finite.max():.4g}")
    lines = Text()
    if names_across:
        lines.append("   " + " " * label + "".join(_right(name, width) for name in names_across) + "\n", "dim")
    shaded = step.name in ("weights", "dropped")
    scale = Scale.of(1, part.problem.shape.S, log=log)
    colors, visible = (paper.shades(scale.level(table)), part.visible(row, head)) if shaded else (None, None)
    for i, line in enumerate(cells):
        lines.append("   " + _left(names(i), label), "dim")
        for j, cell in enumerate(line):
            if colors is None or visible is None:
                lines.append(cell.rjust(width))
            elif visible[i, j]:
                lines.append(cell.rjust(width), papers.on(colors[i, j]))
            else:
                # What is masked is told from zero.
                lines.append("·".rjust(width), Style(dim=True))
        lines.append("\n")
    lines.rstrip()
    return lines


def _number(x: float, digits: int) -> str:
    return "−∞" if x == -np.inf else f"{x:.{digits}f}" if abs(x) < 1e4 else f"{x:.4g}"


def _per_head(part: Labelled, x: np.ndarray) -> np.ndarray:
    """A result as (B, H, …)."""
    problem = part.problem
    array = host("result", x)
    return array.reshape(problem.shape.B, problem.shape.H, *array.shape[len(problem.outer) :])


def clipped(name: str, width: int) -> str:
    """A name in at most this many columns of a terminal."""
    return name if cell_len(name) <= width else set_cell_size(name, width - 1).rstrip() + "…"


def _left(name: str, width: int) -> str:
    return set_cell_size(clipped(name, width - 1), width)


def _right(name: str, width: int) -> str:
    name = clipped(name, width - 1)
    return " " * (width - cell_len(name)) + name
