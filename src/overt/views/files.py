"""Attention out to files and back: .npz, CSV and JSON."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterator
from csv import writer
from pathlib import Path
from typing import Any

import numpy as np

from overt.attention import attend
from overt.errors import ArgumentError
from overt.grid import host
from overt.masks import keep
from overt.scores import additive, scaled_dot
from overt.views.labels import Labelled, readable
from overt.views.stored import Stored
from overt.views.subject import Subject
from overt.writing import replaced

_DENSE = 1 << 28


def save(view: Subject, path: str | Path) -> Path:
    """Everything that ``load`` needs to compute the same attention, and the results beside it."""
    arrays: dict[str, np.ndarray] = {}
    for i, part in enumerate(view.parts):
        prefix = f"{i}." if len(view.parts) > 1 else ""
        arrays |= {prefix + name: array for name, array in _arrays(part).items()}
    with replaced(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return Path(path)


def _arrays(part: Labelled) -> dict[str, np.ndarray]:
    problem = part.problem
    # Half types that only NumPy's additions know are kept as the float32 that holds them.
    dtype = problem.q.dtype.name if problem.q.dtype.kind == "f" else "float32"
    stored = Stored.of(part, dtype)
    results = {
        "output": part.seen.output,
        "lse": part.seen.lse,
        "received": part.seen.received(),
        "entropy": part.seen.entropy(),
    }
    shape, batch = problem.shape, problem.outer[:-1]

    def headed(x: np.ndarray) -> np.ndarray:
        """With the leading axes of the caller, or with none."""
        return x.reshape((*batch, *x.shape[1:]) if problem.outer else x.shape[2:])

    def beside(x: np.ndarray) -> np.ndarray:
        """What broadcasts to (B, H, T, S) as what broadcasts to (…, H, T, S)."""
        x = x.reshape((1,) * (4 - x.ndim) + x.shape)
        return x.reshape(*(shape.batch if x.shape[0] == shape.B else (1,) * len(shape.batch)), *x.shape[1:])

    arrays = {
        "q": headed(stored.q),
        "k": headed(stored.k),
        "v": headed(problem.v.astype(dtype)),
        "scale": np.array(stored.scale),
        "name": np.array(part.name),
        "layer": np.array(part.layer),
        **{name: _plain(host(name, x)) for name, x in results.items()},
    }
    if stored.additive is not None:
        arrays["additive"] = stored.additive
    optional = {"softcap": problem.softcap, "sinks": problem.sinks, "prompt": part.prompt}
    arrays |= {name: _plain(np.asarray(x)) for name, x in optional.items() if x is not None}
    arrays |= {name: np.array(x) for name, x in (("tokens", part.tokens), ("queries", part.queries)) if x is not None}
    if problem.mask is not None or problem.bias is not None:
        if shape.B * shape.H * shape.T * shape.S > _DENSE:
            raise ArgumentError(
                "a mask or bias of more than 268,435,456 cells is too large for an .npz: write a page instead"
            )
        cells = shape.cells()
        if problem.mask is not None:
            arrays["mask"] = beside(problem.mask.visible(cells))
        if problem.bias is not None:
            arrays["bias"] = _plain(beside(np.asarray(problem.bias.at(cells))))
    return arrays


def load(path: str | Path) -> list[Labelled]:
    """Attention from an .npz or .safetensors file with q, k and, optionally, v, mask, bias, sinks, scale and tokens."""
    arrays = _read(Path(path))
    # Of several attentions, one after the other: 0.q, 0.k, 1.q …
    groups: dict[int, dict[str, np.ndarray]] = {}
    for name, x in arrays.items():
        if found := re.fullmatch(r"([0-9]{1,9})\.(.+)", name, re.DOTALL):
            groups.setdefault(int(found[1]), {})[found[2]] = x
    return [_labelled(group, path) for group in [group for _, group in sorted(groups.items())] or [arrays]]


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.suffix == ".safetensors":
            from safetensors import SafetensorError
            from safetensors.numpy import load_file

            try:
                return load_file(path)
            except SafetensorError as error:
                raise ArgumentError(f"{path} is no safetensors file: {error}") from None
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise ArgumentError(f"{path} holds a single array: save q, k and v with numpy.savez")
            arrays = dict(found)
            for name, x in arrays.items():
                if not isinstance(x, np.ndarray):
                    raise ArgumentError(f"{path} holds {name} as bytes, not as an array: save it with numpy.savez")
            return arrays
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {error.strerror or error}") from None
    except ArgumentError:
        raise
    except Exception as error:  # What a broken archive raises is nowhere written down.
        raise ArgumentError(f"{path} cannot be read as arrays: {error}") from None


def _labelled(arrays: dict[str, np.ndarray], path: str | Path) -> Labelled:
    missing = [name for name in ("q", "k") if name not in arrays]
    if missing:
        raise ArgumentError(f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, but no {' and no '.join(missing)}")
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", np.empty((*k.shape[:-1], 0), k.dtype))
    if "additive" in arrays:
        one = np.eye(arrays["additive"].size)
        score = additive(one, one, arrays["additive"])
    else:
        score = scaled_dot(_number(arrays, "scale", float, path))
    seen = attend(
        q,
        k,
        v,
        score=score,
        mask=keep(arrays["mask"]) if "mask" in arrays else None,
        bias=arrays.get("bias"),
        softcap=_number(arrays, "softcap", float, path),
        sinks=arrays.get("sinks"),
    )
    return Labelled(
        seen,
        _names(arrays, "tokens"),
        _names(arrays, "queries"),
        name=str(arrays.get("name", "attention")),
        layer=_number(arrays, "layer", int, path) or 0,
        prompt=_number(arrays, "prompt", int, path),
    )


def _number(arrays: dict[str, np.ndarray], name: str, kind: Any, path: str | Path) -> Any:
    if name not in arrays:
        return None
    try:
        return kind(arrays[name].item())
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} in {path} must be one number, not {_described(arrays[name])}") from None


def _described(x: np.ndarray) -> str:
    return f"{x.dtype} {x.shape}" if x.size != 1 or x.dtype.kind not in "fiub" else repr(x.item())


def _names(arrays: dict[str, np.ndarray], name: str) -> list[str] | None:
    return [str(token) for token in arrays[name].reshape(-1)] if name in arrays else None


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def csv(view: Subject, path: str | Path, k: int) -> Path:
    """The k heaviest keys of every query."""
    with replaced(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        lines = writer(text)
        lines.writerow(("layer", "name", "row", "head", "query", "query token", "rank", "key", "key token", "weight"))
        for part in view.parts:
            for (b, h, t), found in _tops(part, k):
                for rank, (s, w) in enumerate(found):
                    name, query, key = map(_cell, (readable(part.name), part.query(t), part.key(s)))
                    lines.writerow((part.layer, name, b, h, t, query, rank, s, key, repr(w)))
        text.detach()
    return Path(path)


def _cell(name: str) -> str:
    """A name that no spreadsheet takes for a formula: a quote before it says that it is text."""
    # Wide forms of these signs begin a formula as well.
    return f"'{name}" if unicodedata.normalize("NFKC", name.lstrip()[:1]) in ("=", "+", "-", "@") else name


def as_dict(view: Subject, k: int) -> dict[str, Any]:
    """What ``--json`` prints."""
    found: dict[str, Any] = {"title": readable(view.title), "attentions": [_part(part, k) for part in view.parts]}
    if view.trace is not None:
        found["steps"] = [
            {
                "name": step.name,
                "formula": step.formula,
                "axes": step.axes,
                "shape": list(step.array.shape),
                "mean": _finite(step.mean),
                "variance": _finite(step.variance),
                "values": _nested(host(step.name, step.array).tolist()),
            }
            for step in view.trace
        ]
    return found


def _part(part: Labelled, k: int) -> dict[str, Any]:
    shape = part.problem.shape
    return {
        "layer": part.layer,
        "name": readable(part.name),
        "shape": list(shape.full),
        "mask": None if part.problem.mask is None else repr(part.problem.mask),
        "tokens": part.keys,
        "queries": part.rows,
        "entropy": host("entropy", part.seen.entropy()).tolist(),
        "received": host("received", part.seen.received()).tolist(),
        "top": [
            {"row": b, "head": h, "query": t, "keys": [s for s, _ in found], "weights": [w for _, w in found]}
            for (b, h, t), found in _tops(part, k)
        ],
    }


def _tops(part: Labelled, k: int) -> Iterator[tuple[tuple[int, int, int], list[tuple[int, float]]]]:
    shape = part.problem.shape
    indices, weights = (host("top", x).reshape(shape.B, shape.H, shape.T, -1) for x in part.seen.top(min(k, shape.S)))
    for b, h, t in np.ndindex(shape.B, shape.H, shape.T):
        # A weight of 0 may stand behind a mask; it is no answer to who was looked at.
        yield (b, h, t), [(int(s), float(w)) for s, w in zip(indices[b, h, t], weights[b, h, t], strict=True) if w > 0]


def _finite(x: float) -> float | str:
    return x if np.isfinite(x) else str(x)


def _nested(x: Any) -> Any:
    return [_nested(y) for y in x] if isinstance(x, list) else _finite(x)
