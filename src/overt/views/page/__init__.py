"""One HTML file that needs nothing else: q, k and the log-sum-exp, and a reader that recomputes any cell from them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from overt.errors import ArgumentError
from overt.grid import host
from overt.kernels.pieces import pieces as pieces_of
from overt.scores import Additive, Bilinear, Cosine, Product
from overt.views.colors import STOPS
from overt.views.labels import Labelled, readable
from overt.views.page.script import bundled
from overt.views.stored import Stored
from overt.views.subject import Subject
from overt.writing import located, replaced, replaced_folder, streamed

_PRECISIONS = ("float16", "float32", "float64")
# Bytes of q and k that are stored in float64 and in float32, before it is rounded to less.
_DOUBLE, _SINGLE = 1 << 20, 1 << 25
# Multiplications of one head that a browser does while somebody waits; a larger head brings its overview along.
_WORK = 1 << 28
_BINS = 256
# Numbers of q and k that a page holds; those of longer texts lie beside it, so many in a file, with a finer overview.
_INSIDE, _NUMBERS, _MORE_BINS = 1 << 25, 1 << 18, 1024
_TILE = re.compile(r"a[0-9]+-[0-9]+\.js")
# Bytes at either end of an array that tell how it is best compressed.
_SAMPLE = 1 << 18
# Numbers that a person may edit.
_EDITABLE = 2048


def write(
    view: Subject,
    path: str | Path,
    *,
    precision: str | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the page, whole or not at all.

    report: told how many cells of its overviews are done, and of how many.
    """
    if precision is not None and precision not in _PRECISIONS:
        raise ArgumentError(f"precision must be one of {', '.join(_PRECISIONS)}, not {precision!r}")
    path = located(path)
    with ExitStack() as stack:
        file, beside = stack.enter_context(replaced(path)), None
        if sum(part.problem.q.size + part.problem.k.size for part in view.parts) > _INSIDE:
            if streamed(path):
                raise ArgumentError("a page of such a length has a folder beside it: give a file to write it to")
            beside = stack.enter_context(_folder(path.with_suffix(".tiles")))
        for piece in pieces(view, precision, beside=beside, report=report):
            file.write(piece.encode())
    return path


@contextmanager
def _folder(path: Path) -> Iterator[tuple[str, Path]]:
    """The name of a new folder for tiles, and where it is until it is complete; tiles of an older page give way."""
    with replaced_folder(path, overwrite=True) as new:
        yield path.name, new
        if path.is_dir():
            written = {tile.name for tile in new.iterdir()}
            for tile in path.iterdir():
                if _TILE.fullmatch(tile.name) and tile.name not in written:
                    tile.unlink()
            # What an older page had fewer of is no reason to keep it.
            for name in written - {tile.name for tile in path.iterdir()}:
                (path / name).touch()


def pieces(
    view: Subject,
    precision: str | None = None,
    *,
    remote: bool = False,
    beside: tuple[str, Path] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Iterator[str]:
    """The page in pieces, so that it is never held whole.

    A remote page holds numbers only where they are few; else it asks the window around it for cells, with the messages
    of ``overt.views.tiles``.
    beside: the name and the place of a folder for arrays that are too long for a page; it reads them when they are
    looked at, from scripts, for a page from a folder may read nothing else there.
    """
    here = files("overt.views.page")
    style = re.sub(r"^\s+", "", (here / "page.css").read_text("utf-8"), flags=re.MULTILINE)
    code = bundled("app")
    # The one script of the page may load others, of the names that its one policy lets pass.
    scripts, trusted = ("", "'none'") if beside is None else (" 'strict-dynamic'", "overt")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(code)}'{scripts}; style-src 'sha256-{_digest(style)}'; "
        f"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types {trusted}"
    )
    before, after = (here / "page.html").read_text("utf-8").split("<!-- data -->")
    yield (
        before.replace("{{policy}}", policy)
        .replace("{{style}}", style)
        .replace("{{title}}", _escaped(readable(view.title)))
    )
    arrays = _Arrays(beside)
    parts = []
    done, total = 0, sum(int(label.cells().sum()) for label in view.parts) if report else 0

    def advance(cells: int) -> None:
        nonlocal done
        done += cells
        if report:
            report(done, total)

    advance(0)
    for label in view.parts:
        part = _described(label, arrays)
        # What is small enough to be edited is small enough to be sent.
        if not remote or part["steps"]:
            part |= _part(label, arrays, precision or _precision(view.parts, beside=beside is not None), advance)
        parts.append(part)
        # An array is written when it is known, so that only one is held.
        yield from arrays.written()
    meta = {
        "title": readable(view.title),
        "remote": remote,
        "steps": view.trace is not None,
        "stops": STOPS,
        "lists": arrays.lists,
        "parts": parts,
    }
    yield f'<script type="application/json" id="meta">{_json(meta)}</script>\n'
    yield after.replace("{{script}}", code)


class _Arrays:
    """Arrays and lists of names on their way into the page; the same list of names is written once."""

    def __init__(self, beside: tuple[str, Path] | None) -> None:
        self.beside = beside
        self.count, self.lists = 0, list[list[str]]()
        self._waiting: list[tuple[int, np.ndarray, bool]] = []
        self._known: dict[tuple[str, ...], int] = {}

    def add(self, array: np.ndarray, *, delta: bool = False) -> dict[str, Any]:
        self._waiting.append((self.count, array, delta))
        self.count += 1
        return {"id": self.count - 1, "dtype": array.dtype.name, "shape": array.shape, "delta": delta}

    def long(self, array: np.ndarray) -> dict[str, Any]:
        """An array that is read in pieces, and so may lie beside the page."""
        if self.beside is None or array.size <= _NUMBERS:
            return self.add(array)
        (name, folder), number, flat = self.beside, self.count, array.reshape(-1)
        self.count += 1
        for i, start in enumerate(range(0, flat.size, _NUMBERS)):
            text = "".join(_packed(flat[start : start + _NUMBERS], delta=False))
            with replaced(folder / f"a{number}-{i}.js") as file:
                file.write(f'overtTile("a{number}-{i}","{text}")\n'.encode("ascii"))
        tiles = {"folder": name, "name": f"a{number}", "size": _NUMBERS}
        return {"id": number, "dtype": array.dtype.name, "shape": array.shape, "delta": False, "tiles": tiles}

    def names(self, names: tuple[str, ...] | None) -> int | None:
        if names is None:
            return None
        if names not in self._known:
            self._known[names] = len(self.lists)
            self.lists.append(list(names))
        return self._known[names]

    def written(self) -> Iterator[str]:
        while self._waiting:
            number, array, delta = self._waiting.pop(0)
            yield f'<script type="text/plain" id="a{number}">'
            yield from _packed(array, delta)
            yield "</script>\n"


def _packed(array: np.ndarray, delta: bool) -> Iterator[str]:
    """Bytes of equal place together, deflated: exponents repeat themselves where whole numbers do not."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if delta:
        flat = np.diff(flat, prepend=flat.dtype.type(0))
    flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
    rows = flat.view(np.uint8).reshape(-1, flat.itemsize)
    stream, rest = zlib.compressobj(1, zlib.DEFLATED, 15, 9, _strategy(rows)), b""
    # Some bytes of a place at a time, and of the text whole groups of three.
    for place in range(rows.shape[1]):
        for start in range(0, len(rows), _SAMPLE):
            rest += stream.compress(rows[start : start + _SAMPLE, place].tobytes())
            whole = len(rest) // 3 * 3
            yield base64.b64encode(rest[:whole]).decode("ascii")
            rest = rest[whole:]
    yield base64.b64encode(rest + stream.flush()).decode("ascii")


def _strategy(rows: np.ndarray) -> int:
    """The better of two ways to deflate: what is measured is noise but for its exponents, and repeats nothing."""
    some = rows[:_SAMPLE, :1].tobytes() + rows[-_SAMPLE:, -1:].tobytes()

    def written(strategy: int) -> int:
        stream = zlib.compressobj(1, zlib.DEFLATED, 15, 9, strategy)
        return len(stream.compress(some)) + len(stream.flush())

    return min((zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY), key=written)


def _described(label: Labelled, arrays: _Arrays) -> dict[str, Any]:
    """What there is to see, without the numbers."""
    problem = label.problem
    shape, mask = problem.shape, problem.mask
    return {
        "name": readable(label.name),
        "layer": label.layer,
        "source": None if label.source is None else readable(label.source),
        "prompt": label.prompt,
        "B": shape.B,
        "H": shape.H,
        "G": problem.k.shape[1],
        "T": shape.T,
        "S": shape.S,
        "A": problem.k.shape[-1],
        "mask": None if mask is None else repr(mask),
        "keys": arrays.names(label.keys),
        "queries": arrays.names(label.rows),
        "steps": _steps(label),
    }


def _part(label: Labelled, arrays: _Arrays, precision: str, advance: Callable[[int], None]) -> dict[str, Any]:
    """The numbers: q, k and the log-sum-exp, and what else the cells depend on."""
    stored = Stored.of(label, precision)
    shape, A = stored.shape, stored.q.shape[-1]
    first, last, bits = stored.spans()
    bias = stored.bias()
    rest, maximum = stored.sums
    part = {
        "A": A,
        "scale": stored.scale,
        "softcap": label.problem.softcap,
        "q": arrays.long(stored.q),
        "k": arrays.long(stored.k),
        "additive": None if stored.additive is None else arrays.add(stored.additive),
        "lse": arrays.long(rest),
        "maximum": None if maximum is None else arrays.long(maximum),
        "first": arrays.add(first, delta=True),
        "last": arrays.add(last, delta=True),
        "bits": None if bits is None else arrays.add(bits),
        "bias": None,
        "rounded": stored.q.dtype.itemsize < label.problem.q.dtype.itemsize,
    }
    if bias is not None:
        kind, numbers, offset = bias
        part["bias"] = {
            "kind": kind,
            "numbers": arrays.add(numbers if numbers.dtype.name in _PRECISIONS else numbers.astype(np.float32)),
            "offset": None if offset is None else offset.tolist(),
        }
    if shape.T * shape.S * A > _WORK:
        overview, received, entropy = stored.overview(_BINS if arrays.beside is None else _MORE_BINS, advance)
        part["overview"] = arrays.add(overview.astype(np.float16))
        part["received"], part["entropy"] = arrays.long(received), arrays.long(entropy)
    return part


def _precision(parts: tuple[Labelled, ...], *, beside: bool) -> str:
    """The finest precision that the inputs have and that keeps the file small."""
    numbers = sum(label.problem.q.size + label.problem.k.size for label in parts)
    given = {label.problem.q.dtype.name for label in parts}
    if given == {"float16"} and all(part.problem.score.identity for part in parts):
        return "float16"
    if beside:
        # What is not carried need not be rounded.
        return max(given & set(_PRECISIONS), default="float32", key=_PRECISIONS.index)
    if "float64" in given and numbers * 8 <= _DOUBLE:
        return "float64"
    if numbers * 4 <= _SINGLE:
        return "float32"
    arrays = [x for p in parts for x in (p.problem.q, p.problem.k)]
    largest = (_largest(x[at]) for x in arrays for at in pieces_of(x.shape, _NUMBERS))
    return "float16" if all(size < 6e4 for size in largest) else "float32"


def _largest(x: np.ndarray) -> float:
    """The largest finite number, in size."""
    return float(np.abs(np.nan_to_num(x, nan=0, posinf=0, neginf=0)).max(initial=0))


def _steps(label: Labelled) -> dict[str, Any] | None:
    """What the step-by-step view needs, where the numbers are few enough to be edited."""
    problem = label.problem
    score, arrays = problem.score, {"q": problem.q, "k": problem.k, "v": problem.v}
    kind = "cosine" if isinstance(score, Cosine) else "dot"
    weights: dict[str, Any] = {}
    if isinstance(score, Bilinear):
        kind, weights = "bilinear", {"weight": score.weight}
    elif isinstance(score, Additive):
        kind = "additive"
        # What is projected already is projected by nothing.
        own = [np.eye(len(score.v)) if w is None else w for w in (score.query_weight, score.key_weight)]
        weights = {"query_weight": own[0], "key_weight": own[1], "v": score.v}
        weights["bias"] = np.zeros(len(score.v)) if score.bias is None else score.bias
    cells = problem.shape.T * problem.shape.S * (len(score.v) if isinstance(score, Additive) else 1)
    if sum(math.prod(x.shape) for x in (*arrays.values(), *weights.values())) > _EDITABLE or cells > _EDITABLE:
        return None
    arrays, weights = (
        {name: host(name, x).astype(np.float64) for name, x in group.items()} for group in (arrays, weights)
    )
    if not all(np.isfinite(x).all() for x in (*arrays.values(), *weights.values())):
        return None
    return {
        "kind": kind,
        "scale": score.factors(np, problem.q[:, :1], problem.k[:, :1])[2] if isinstance(score, Product) else 1,
        "sinks": None if problem.sinks is None else problem.sinks.astype(np.float64).tolist(),
        "weights": {name: x.tolist() for name, x in weights.items()},
        **{name: x.tolist() for name, x in arrays.items()},
    }


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _json(value: object) -> str:
    """JSON in which no character can end a script element or a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
