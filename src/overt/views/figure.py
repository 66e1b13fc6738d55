"""Figures by matplotlib (extra ``plot``)."""

from __future__ import annotations

import re
import warnings
from io import BytesIO
from math import ceil
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from overt.attended import Attended
from overt.errors import ArgumentError
from overt.grid import host, whole
from overt.views.colors import STOPS, Scale, shades
from overt.views.labels import Labelled, readable
from overt.views.subject import Subject
from overt.writing import located, replaced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("map", "heads", "alignment", "entropy", "received", "variance")
_SHADED = KINDS[:3]
# More names than this have no room on an axis.
_NAMES = 40
_PIXELS = 768
# Letters of a line beside a bar.
_BESIDE = 34
# Names of fonts that have more than Latin letters.
_BROAD = re.compile("CJK|Han|WenQuanYi|Unifont|Unicode|PingFang|Hei|Gothic")
_MASKED, _HATCH = "#e9e7e1", "#b9b4a6"
_WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)


def draw(view: Subject, kind: str, *, head: int | None, row: int, part: int, log: bool) -> Figure:
    """One kind of figure of one part of a view."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ArgumentError("figures need matplotlib: pip install 'overt[plot]'") from None
    if kind not in KINDS:
        raise ArgumentError(f"there is no figure {kind!r}: choose one of {', '.join(KINDS)}")
    if not 0 <= part < len(view.parts):
        raise ArgumentError(f"there is no part {part}: give 0…{len(view.parts) - 1}")
    if log and kind not in _SHADED:
        raise ArgumentError(f"log is a scale of shades, and {kind} has none: choose one of {', '.join(_SHADED)}")
    if kind == "alignment":
        # As the page opens: of a translation, its last cross-attention.
        crosses = [one for one in view.parts if one.name == "cross"]
        if not crosses:
            raise ArgumentError("an alignment is drawn of cross-attention, and here is none: choose another figure")
    label = crosses[-1] if kind == "alignment" else view.parts[part]
    for name, value, count in (("row", row, label.problem.shape.B), ("head", head, label.problem.shape.H)):
        if (value is not None or name == "row") and not 0 <= whole(name, value) < count:
            raise ArgumentError(f"there is no {name} {value}: give 0…{count - 1}")

    class Picture(Figure):
        """A figure that a notebook shows, although pyplot does not know it."""

        def savefig(self, *args: Any, **options: Any) -> None:
            with warnings.catch_warnings():
                # Missing letters were named once.
                warnings.filterwarnings("ignore", "Glyph .* missing")
                super().savefig(*args, **options)

        def _repr_png_(self) -> bytes:
            with BytesIO() as file:
                self.savefig(file, format="png", dpi=110)
                return file.getvalue()

    names = {readable(view.title), label.title, *(label.keys or ()), *(label.rows or ())}
    with rc_context({"font.family": _families("".join(names))}):
        return _drawn(Picture(layout="constrained", figsize=(6.4, 5.2)), view, label, kind, row, head, log)


def _drawn(figure: Figure, view: Subject, label: Labelled, kind: str, row: int, head: int | None, log: bool) -> Figure:
    if kind in ("map", "alignment"):
        _map(figure, label, row, head, log, alignment=kind == "alignment")
    elif kind == "heads":
        _heads(figure, label, row, log)
    elif kind == "variance":
        _variance(figure)
    else:
        _lines(figure, label, kind, row, head)
    # Which layer and part it is, below what it is of; lines as long as the figure is wide.
    lines = ["Why scores are divided by √D"] if kind == "variance" else [readable(view.title), label.title]
    room = round(11 * figure.get_size_inches()[0])
    title = "\n".join(part for line in lines for part in wrap(line, room)[:3])
    figure.suptitle(title.replace("$", r"\$"), fontsize=11)
    return figure


def _families(text: str) -> list[str]:
    """Fonts that have all letters of a text between them, as far as such are installed; a warning says what is not."""
    from matplotlib import font_manager

    families = ["DejaVu Sans"]
    known = font_manager.get_font(font_manager.findfont(families[0])).get_charmap()
    missing = {c for c in text if not c.isspace() and ord(c) not in known}
    # Only where letters are missing are other fonts opened, those of many scripts first.
    entries = sorted(font_manager.fontManager.ttflist, key=lambda one: (not _BROAD.search(one.name), one.name))
    for entry in entries if missing else ():
        # That one has boxes for all that there is.
        if entry.name in families or entry.name.startswith("Last Resort"):
            continue
        own = font_manager.get_font(entry.fname).get_charmap()
        if found := {c for c in missing if ord(c) in own}:
            families.append(entry.name)
            missing -= found
        if not missing:
            break
    if missing:
        some = "".join(sorted(missing)[:8])
        warnings.warn(f"no font here has {some}: install one that has, such as Noto Sans CJK", stacklevel=4)
    return families


def write(figure: Figure, path: str | Path) -> Path:
    """Write a figure as .png, .svg or .pdf, whole or not at all."""
    kind = located(path).suffix.lstrip(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ArgumentError(f"{path} ends in no format known here: give .png, .svg or .pdf")
    with replaced(path) as file:
        figure.savefig(file, format=kind, dpi=150)
    return Path(path)


def _map(figure: Figure, label: Labelled, row: int, head: int | None, log: bool, *, alignment: bool) -> None:
    """The matrix of one head, or the mean of all; of an alignment, the source above and the translation down."""
    axes = figure.subplots()
    shape = label.problem.shape
    picture = _pictures(label, row, _PIXELS)
    heads = range(shape.H) if head is None else (head,)
    picture = picture.mean(axis=0) if head is None else picture[head]
    visible = np.any([label.visible_bins(row, h, *picture.shape) for h in heads], axis=0)
    scale = _scale(picture, label, log)
    shade = _shown(axes, picture, visible, label, scale, extent=_extent(label))
    _name(axes, label)
    if alignment:
        axes.set(xlabel="source", ylabel="translation")
        axes.xaxis.set(label_position="top", ticks_position="top")
        for name in axes.get_xticklabels():
            name.set(rotation=45, ha="left")
    what = "weight" if len(heads) == 1 else f"mean weight of {len(heads)} heads"
    bar = figure.colorbar(shade)
    bar.set_label(_said(what + _pool(picture, label), scale, picture), fontsize=9)
    _legend(figure, visible)


def _heads(figure: Figure, label: Labelled, row: int, log: bool) -> None:
    """All heads as small matrices, on one scale."""
    pictures = _pictures(label, row, 192)
    across = min(len(pictures), ceil(len(pictures) ** 0.5))
    down = ceil(len(pictures) / across)
    figure.set_size_inches(2 * across + 1, 2 * down + 0.6)
    scale = _scale(pictures, label, log)
    visible = np.stack([label.visible_bins(row, h, *pictures.shape[1:]) for h in range(len(pictures))])
    every = np.atleast_1d(figure.subplots(down, across, squeeze=False)).reshape(-1)
    for number, axes in enumerate(every):
        if number >= len(pictures):
            axes.set_axis_off()
            continue
        shade = _shown(axes, pictures[number], visible[number], label, scale)
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"head {number}", fontsize=9)
    said = _said("weight" + _pool(pictures[0], label), scale, pictures)
    figure.colorbar(shade, ax=list(every), shrink=0.8).set_label(said, fontsize=9)
    figure.supxlabel("keys →", fontsize=9)
    figure.supylabel("← queries", fontsize=9)
    _legend(figure, visible)


def _shown(axes: Any, picture: np.ndarray, visible: np.ndarray, label: Labelled, scale: Scale, **options: Any) -> Any:
    """A picture whose masked cells let the hatching behind it through: what may not be seen is no zero."""
    axes.patch.set(facecolor=_MASKED, hatch="/////", edgecolor=_HATCH)
    shown = np.ma.masked_where(~visible, picture)
    return axes.imshow(shown, **_shades(scale), aspect=_aspect(label), interpolation="nearest", **options)


def _pool(picture: np.ndarray, label: Labelled) -> str:
    """Of how many weights a pixel is the largest."""
    T, S = label.problem.shape.T, label.problem.shape.S
    rows, columns = picture.shape
    return "" if picture.shape == (T, S) else f", largest of each {-(-T // rows)} × {-(-S // columns)}"


def _legend(figure: Figure, visible: np.ndarray) -> None:
    """What hatching means, if there is any."""
    from matplotlib.patches import Patch

    if not visible.all():
        masked = Patch(facecolor=_MASKED, hatch="/////", edgecolor=_HATCH, label="masked")
        figure.legend(handles=[masked], loc="outside lower right", fontsize=8, frameon=False)


def _lines(figure: Figure, label: Labelled, kind: str, row: int, head: int | None) -> None:
    """Entropy of every query or attention received by every key, one line a head."""
    shape = label.problem.shape
    values = host(kind, getattr(label.seen, kind)()).reshape(shape.B, shape.H, -1)[row]
    axes = figure.subplots()
    names = label.rows if kind == "entropy" else label.keys
    chosen = range(shape.H) if head is None else (head,)
    for number, h in enumerate(chosen):
        level = 0.25 + 0.75 * number / max(1, len(chosen) - 1)
        axes.plot(values[h], color=_color(level), label=f"head {h}", marker="o" if values.shape[1] <= _NAMES else None)
    axes.set_xlabel("query" if kind == "entropy" else "key")
    axes.set_ylabel("entropy of its weights, nats" if kind == "entropy" else "attention received from all queries")
    axes.set_ylim(bottom=0)
    if names is not None and len(names) <= _NAMES:
        axes.set_xticks(range(len(names)), [_plain(name) for name in names], rotation=60, ha="right")
    if 1 < len(chosen) <= 16:
        axes.legend(fontsize=8)


def _variance(figure: Figure) -> None:
    """Variance of q · k over the width D, before and after scaling: why scores are divided by √D."""
    rng = np.random.default_rng(0)
    raw = []
    for width in _WIDTHS:
        q, k = rng.normal(size=(256, width)), rng.normal(size=(256, width))
        raw.append(float((q @ k.T).var()))
    axes = figure.subplots()
    axes.loglog(_WIDTHS, raw, "o-", base=2, color=_color(0.9), label="q · k")
    axes.loglog(
        _WIDTHS,
        [x / width for x, width in zip(raw, _WIDTHS, strict=True)],
        "s-",
        base=2,
        color=_color(0.5),
        label="q · k / √D",
    )
    axes.set_xlabel("width D of queries and keys")
    axes.set_ylabel("variance of the scores of normal numbers")
    axes.legend()


def _pictures(label: Labelled, row: int, pixels: int) -> np.ndarray:
    """(H, ≤ pixels, ≤ pixels) largest weights of a batch row."""
    shape, seen = label.problem.shape, Attended(label.problem)
    picture = seen.map(min(shape.T, pixels), min(shape.S, pixels))
    return picture.reshape(shape.B, shape.H, *picture.shape[-2:])[row]


def _scale(picture: np.ndarray, label: Labelled, log: bool) -> Scale:
    return Scale.of(float(picture.max(initial=0)), label.problem.shape.S, log=log)


def _said(what: str, scale: Scale, picture: np.ndarray) -> str:
    """What stands beside a bar of shades, in lines as long as the smallest."""
    return "\n".join(part for line in (f"{what}, {scale.name}", scale.hint(picture)) for part in wrap(line, _BESIDE))


def _shades(scale: Scale) -> dict[str, Any]:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    blend = LinearSegmentedColormap.from_list("overt", [tuple(c / 255 for c in stop) for stop in STOPS])
    # Of a logarithmic scale 0 is its end: what is bad is masked.
    norm = LogNorm(scale.low, scale.high, clip=True) if scale.log else Normalize(scale.low, scale.high)
    return {"cmap": blend.with_extremes(bad=(0, 0, 0, 0)), "norm": norm}


def _color(level: float) -> str:
    return "#{:02x}{:02x}{:02x}".format(*shades(np.array(level)))


def _aspect(label: Labelled) -> Literal["equal", "auto"]:
    shape = label.problem.shape
    return "equal" if max(shape.T, shape.S) < 4 * min(shape.T, shape.S) else "auto"


def _extent(label: Labelled) -> tuple[float, float, float, float]:
    shape = label.problem.shape
    return -0.5, shape.S - 0.5, shape.T - 0.5, -0.5


def _name(axes: Any, label: Labelled) -> None:
    axes.set(xlabel="key", ylabel="query")
    shape = label.problem.shape
    if label.keys is not None and shape.S <= _NAMES:
        axes.set_xticks(range(shape.S), [_plain(name) for name in label.keys], rotation=60, ha="right")
    if label.rows is not None and shape.T <= _NAMES:
        axes.set_yticks(range(shape.T), [_plain(name) for name in label.rows])


def _plain(name: str) -> str:
    """A name that matplotlib takes for no formula and that has room, without the mark that it begins a word."""
    name = name.removeprefix("▁") or name
    return (name if len(name) <= 24 else name[:23] + "…").replace("$", r"\$")
