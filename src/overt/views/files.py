"""Attention out to files and back: .npz, CSV and JSON."""

from __future__ import annotations

import io
import operator
import re
import unicodedata
from collections.abc import Iterator, Mapping
from csv import writer
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from overt import reference
from overt.attended import Attended
from overt.attention import attend
from overt.biases import Alibi, Bias, Dense, Relative, added, alibi, as_bias, relative
from overt.dropout import Dropout, dropout
from overt.errors import ArgumentError, ShapeError
from overt.given import given
from overt.grid import Shape, broadcasts, host, integers
from overt.masks import Mask, Spans, keep
from overt.problem import Problem
from overt.scores import Projected, Score, scaled_dot
from overt.views.labels import Labelled, readable
from overt.views.stored import Stored
from overt.views.subject import Subject
from overt.writing import located, replaced

# Numbers of a bias that is neither ALiBi nor T5's, and so is stored as it is.
_DENSE = 1 << 28
# Cells of heads that a file's own result is taken for, after so many of its rows were computed again.
_LONG, _TRIED = 1 << 35, 16


def save(view: Subject, path: str | Path) -> Path:
    """Everything that ``load`` needs to compute the same attention, and the results beside it.

    Masks are kept as spans of keys and, where spans do not suffice, as bits; ALiBi and T5's biases as what they are
    made of; names as UTF-8, one after the other, and where each ends.
    """
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
    batch = problem.outer[:-1]

    def headed(x: np.ndarray) -> np.ndarray:
        """With the leading axes of the caller, or with none."""
        return x.reshape((*batch, *x.shape[1:]) if problem.outer else x.shape[2:])

    arrays = {
        "name": _bytes(part.name),
        "layer": np.array(part.layer),
        **{name: _plain(host(name, x)) for name, x in results.items()},
    }
    if part.source is not None:
        arrays["source"] = _bytes(part.source)
    if part.prompt is not None:
        arrays["prompt"] = np.array(part.prompt)
    for name, names in (("tokens", part.tokens), ("queries", part.queries)):
        if names is not None:
            pieces = [_bytes(one) for one in names]
            arrays[name] = np.concatenate(pieces)
            arrays[f"{name}.ends"] = np.cumsum([len(piece) for piece in pieces])
    if not problem.q.shape[-1] and problem.sinks is None:
        # Somebody else has computed these; their rows may sum to less than 1.
        del arrays["output"]
        return arrays | {"weights": np.asarray(part.seen.weights)}
    arrays |= {
        "q": headed(stored.q),
        "k": headed(stored.k),
        "v": headed(problem.v.astype(dtype)),
        "scale": np.array(stored.scale),
    }
    optional = {"additive": stored.additive, "softcap": problem.softcap, "sinks": problem.sinks}
    if problem.dropout is not None:
        optional |= {"dropout": problem.dropout.rate, "dropout.seed": _seed(problem.dropout)}
    arrays |= {name: _plain(np.asarray(x)) for name, x in optional.items() if x is not None}
    return arrays | _mask_arrays(stored) | _bias_arrays(problem)


def _seed(given: Dropout) -> np.uint64:
    seed = given.seed
    return np.uint64((seed if isinstance(seed, int) else int(host("the dropout seed", seed))) % 2**64)


def _bytes(text: str) -> np.ndarray:
    # Half of a pair of surrogates may stand in a name, too.
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _mask_arrays(stored: Stored) -> dict[str, np.ndarray]:
    mask = stored.label.problem.mask
    if mask is None:
        return {}
    first, last, bits = stored.spans()
    found = {"mask.first": first, "mask.last": last, "mask.text": _bytes(repr(mask))}
    return found if bits is None else found | {"mask.bits": bits}


def _bias_arrays(problem: Problem) -> dict[str, np.ndarray]:
    shape = problem.shape
    found: dict[str, np.ndarray] = {}
    rest: list[Bias] = []
    for term in () if problem.bias is None else problem.bias.terms:
        # Of packed sequences, nobody who reads the file knows where one ends.
        kind = {Alibi: "alibi", Relative: "relative"}.get(type(term)) if shape.packing is None else None
        if kind is None or kind in found or not isinstance(term, Alibi | Relative):
            rest.append(term)
            continue
        found[kind] = _plain(np.asarray(term.parameter))
        if term.offset is not None:
            found[f"{kind}.offset"] = term.offset
        if isinstance(term, Relative):
            found["relative.bidirectional"] = np.array(term.bidirectional)
            found["relative.max_distance"] = np.array(term.max_distance)
    if not rest:
        return found
    if sum(x.parameter.size if isinstance(x, Dense) else prod(shape.full) for x in rest) > _DENSE:
        raise ArgumentError(f"a bias of more than {_DENSE:,} numbers is too large for an .npz: write a page instead")
    x = added((term.at(shape.cells()) for term in rest), np.dtype(problem.accumulate))
    x = x.reshape((1,) * (4 - x.ndim) + x.shape)
    batch = shape.batch if x.shape[0] == shape.B else (1,) * len(shape.batch)
    return found | {"bias": x.reshape(*batch, *x.shape[1:]).astype(problem.accumulate, copy=False)}


def load(path: str | Path, *, mask: Mask | None = None) -> list[Labelled]:
    """Attention from an .npz or .safetensors file with q, k and, optionally, v, mask, bias, sinks, scale and tokens.

    Instead of q and k it may hold weights (…, H, T, S), and an .npy file does.
    mask: what else hides keys, beside the mask of the file.
    """
    arrays = _read(located(path))
    # Of several attentions, one after the other: 0.q, 0.k, 1.q …
    groups: dict[int, dict[str, np.ndarray]] = {}
    for name, x in arrays.items():
        if found := re.fullmatch(r"([0-9]{1,9})\.(.+)", name, re.DOTALL):
            groups.setdefault(int(found[1]), {})[found[2]] = x
    return [_labelled(group, path, mask) for group in [group for _, group in sorted(groups.items())] or [arrays]]


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
                return {"weights": found}
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
        raise ArgumentError(f"{path} cannot be read as arrays: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Why NumPy cannot read a file; where it would unpickle it, what the file is not, and no advice to do so."""
    text = str(error)
    if "pickle" not in text:
        return text
    return "it holds Python objects, not numbers" if text.startswith("Object") else "it is no .npy or .npz file"


def _labelled(arrays: dict[str, np.ndarray], path: str | Path, mask: Mask | None) -> Labelled:
    seen = _computed(arrays, path, mask) if "weights" not in arrays else given(arrays["weights"])
    if "weights" in arrays and mask is not None:
        seen = Attended(replace(seen.problem, mask=mask))
    return Labelled(
        seen,
        _names(arrays, "tokens", path),
        _names(arrays, "queries", path),
        name=_text(arrays["name"]) if "name" in arrays else "attention",
        layer=_number(arrays, "layer", int, path) or 0,
        prompt=_number(arrays, "prompt", int, path),
        source=_text(arrays["source"]) if "source" in arrays else None,
    )


def _computed(arrays: dict[str, np.ndarray], path: str | Path, mask: Mask | None) -> Attended:
    missing = [name for name in ("q", "k") if name not in arrays]
    if missing:
        raise ArgumentError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, but no {' and no '.join(missing)}: "
            "give q and k, or weights (…, H, T, S), by these names"
        )
    q, k = arrays["q"], arrays["k"]
    v = arrays.get("v", np.empty((*k.shape[:-1], 0), k.dtype))
    if "additive" in arrays:
        score: Score = Projected(arrays["additive"])
    else:
        score = scaled_dot(_number(arrays, "scale", float, path))
    own = _mask(arrays, path)
    options: dict[str, Any] = {
        "score": score,
        "mask": own & mask if own is not None and mask is not None else mask if own is None else own,
        "bias": _bias(arrays, path),
        "softcap": _number(arrays, "softcap", float, path),
        "sinks": arrays.get("sinks"),
        "dropout": _dropout(arrays, path),
    }
    found = None if mask is not None else _known(arrays, Problem.of(q, k, v, **options))
    return attend(q, k, v, **options) if found is None else found


def _known(arrays: Mapping[str, np.ndarray], problem: Problem) -> Attended | None:
    """The result that lies beside long q and k, where some of its rows are what these give."""
    shape, lse, output = problem.shape, arrays.get("lse"), arrays.get("output")
    if shape.T * shape.S < _LONG or lse is None or lse.shape != (*problem.outer, shape.T):
        return None
    if not problem.v.shape[-1]:
        output = np.empty((*lse.shape, 0), problem.q.dtype)
    if output is None or output.shape != (*lse.shape, problem.v.shape[-1]) or lse.dtype != problem.accumulate:
        return None
    whole = (shape.B, shape.H, shape.T)
    lse, output = lse.reshape(whole), output.reshape(*whole, -1)
    for b, h, t in np.random.default_rng(0).integers(0, whole, (_TRIED, 3)).tolist():
        row = problem.part(range(b, b + 1), range(h, h + 1), range(t, t + 1))
        (own,) = (host("lse", step.array).item() for step in reference.steps(row) if step.name == "lse")
        if not np.isclose(own, lse[b, h, t], rtol=1e-4, atol=1e-4):
            return None
    return Attended(problem, (output, lse))


@dataclass(frozen=True, eq=False)
class _Lowered(Spans):
    """Spans of a file, with the words for the mask that they were made of."""

    text: str

    def __repr__(self) -> str:
        return readable(self.text)

    def check(self, shape: Shape) -> None:
        full = shape.B, shape.H, shape.T
        for name, x in (("first", self.first), ("last", self.last)):
            if not broadcasts(x.shape, full):
                raise ShapeError(f"mask.{name} has shape {x.shape}, which does not broadcast to (B, H, T) = {full}")


def _mask(arrays: dict[str, np.ndarray], path: str | Path) -> Mask | None:
    if "mask.first" not in arrays and "mask.last" not in arrays:
        return keep(arrays["mask"]) if "mask" in arrays else None
    first, last = (integers(f"{name} in {path}", arrays.get(name)) for name in ("mask.first", "mask.last"))
    spans = _Lowered(first, last, _text(arrays["mask.text"]) if "mask.text" in arrays else "spans")
    if "mask.bits" not in arrays:
        return spans
    bits, batch = arrays["mask.bits"], arrays["q"].shape[:-3]
    S = arrays["k"].shape[-2] if arrays["k"].ndim > 1 else 0
    fits = bits.dtype == np.uint8 and bits.ndim == 4 and bits.shape[-1] == -(-S // 8)
    if not fits or bits.shape[0] not in (1, prod(batch)):
        raise ArgumentError(f"mask.bits in {path} must be bytes (B, H, T, {-(-S // 8)}), not {bits.dtype} {bits.shape}")
    cells = np.unpackbits(bits, axis=-1, count=S, bitorder="little").view(bool)
    batch = batch if len(bits) == prod(batch) else (1,) * len(batch)
    return spans & keep(cells.reshape(*batch, *cells.shape[1:]) if arrays["q"].ndim > 2 else cells[0, 0])


def _bias(arrays: dict[str, np.ndarray], path: str | Path) -> Bias | None:
    dense = as_bias(arrays.get("bias"), on_host=True)
    terms = [] if dense is None else [dense]
    if "alibi" in arrays:
        terms.append(alibi(arrays["alibi"], arrays.get("alibi.offset")))
    if "relative" in arrays:
        named = {name: _number(arrays, f"relative.{name}", int, path) for name in ("bidirectional", "max_distance")}
        options = {name: value for name, value in named.items() if value is not None}
        terms.append(relative(arrays["relative"], offset=arrays.get("relative.offset"), **options))
    return reduce(operator.add, terms) if terms else None


def _dropout(arrays: dict[str, np.ndarray], path: str | Path) -> Dropout | None:
    rate, seed = _number(arrays, "dropout", float, path), _number(arrays, "dropout.seed", int, path)
    if (rate is None) != (seed is None):
        raise ArgumentError(f"{path} holds only one of dropout and dropout.seed: give the rate and the seed")
    return None if rate is None else dropout(rate, seed)


def _number(arrays: dict[str, np.ndarray], name: str, kind: Any, path: str | Path) -> Any:
    if name not in arrays:
        return None
    try:
        return kind(arrays[name].item())
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} in {path} must be one number, not {_described(arrays[name])}") from None


def _described(x: np.ndarray) -> str:
    return f"{x.dtype} {x.shape}" if x.size != 1 or x.dtype.kind not in "fiub" else repr(x.item())


def _names(arrays: dict[str, np.ndarray], name: str, path: str | Path) -> list[str] | None:
    if name not in arrays:
        return None
    x = arrays[name].reshape(-1)
    if f"{name}.ends" not in arrays:
        # One string each, as NumPy has them.
        return [_text(token) for token in x]
    ends = integers(f"{name}.ends in {path}", arrays[f"{name}.ends"]).reshape(-1)
    starts = np.concatenate([[0], ends[:-1]])
    if x.dtype != np.uint8 or (starts > ends).any() or (ends.size and ends[-1] > x.size):
        raise ArgumentError(f"{name}.ends in {path} must say where in the bytes of {name} each of them ends")
    return [_text(x[start:end]) for start, end in zip(starts, ends, strict=True)]


def _text(x: np.ndarray | np.generic) -> str:
    """One string: UTF-8 as bytes, or one of NumPy's."""
    if isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim == 1:
        data = x.tobytes()
    elif x.dtype.kind == "S" and x.ndim == 0:
        data = x.item()
    else:
        return str(x)
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)


def csv(view: Subject, path: str | Path, k: int) -> Path:
    """The k heaviest keys of every query."""
    with replaced(path) as file:
        # Half of a pair of surrogates is no text in UTF-8.
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
        lines = writer(text)
        lines.writerow(("layer", "name", "row", "head", "query", "query token", "rank", "key", "key token", "weight"))
        for part in view.parts:
            tokens, queries = part.tokens, part.named_queries
            for (b, h, t), found in _tops(part, k):
                query = str(t) if queries is None else queries[t]
                for rank, (s, w) in enumerate(found):
                    key = str(s) if tokens is None else tokens[s]
                    name, query_cell, key_cell = map(_cell, (_named(part), query, key))
                    lines.writerow((part.layer, name, b, h, t, query_cell, rank, s, key_cell, repr(w)))
        text.detach()
    return Path(path)


def _named(part: Labelled) -> str:
    """Its name, after its source where there are several."""
    return " · ".join(one for one in (part.source, part.name) if one is not None)


def _cell(name: str) -> str:
    """A name that no spreadsheet takes for a formula: a quote before it says that it is text.

    Before a quote stands another, so that without the first one every name is as it was.
    """
    # Wide forms of these signs begin a formula as well.
    formula = unicodedata.normalize("NFKC", name.lstrip()[:1]) in ("=", "+", "-", "@")
    return f"'{name}" if formula or name.startswith("'") else name


def as_dict(view: Subject, k: int) -> dict[str, Any]:
    """What ``overt show data`` prints."""
    found: dict[str, Any] = {"title": view.title, "attentions": [_part(part, k) for part in view.parts]}
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
        "name": _named(part),
        "shape": list(shape.full),
        "mask": None if part.problem.mask is None else repr(part.problem.mask),
        "tokens": None if part.tokens is None else list(part.tokens),
        "queries": None if part.named_queries is None else list(part.named_queries),
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
