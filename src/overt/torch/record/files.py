"""A recording out to a file and back: an .npz of plain arrays, in which nothing is pickled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from overt.errors import FileError
from overt.grid import dtype_name, widened
from overt.torch.record.arrays import array, owned
from overt.torch.record.chain import Chain
from overt.torch.record.keeping import Link, Statistics
from overt.torch.record.visible import Visible
from overt.writing import located, replaced

_FORMAT = 1


class Loaded:
    """An array that came from a file."""

    def __init__(self, x: np.ndarray) -> None:
        self.array, self.nbytes = x, x.nbytes


def save(chains: dict[str, list[Chain]], without: list[str], unseen: dict[str, str], path: str | Path) -> Path:
    """Write every chain, joined."""
    path = located(path)
    arrays: dict[str, np.ndarray] = {}
    entries: list[dict[str, Any]] = []
    for name, several in chains.items():
        for chain in several:
            place = len(entries)
            link = _joined(chain)
            arrays |= {f"{place}.{key}": _plain(x) for key, x in _arrays(link)}
            entries.append({"name": name, "cross": chain.cross, "lead": chain.lead, **_numbers(link)})
    text = json.dumps({"format": _FORMAT, "without": without, "unseen": unseen, "entries": entries})
    with replaced(path) as file:
        np.savez_compressed(file, allow_pickle=False, recording=np.frombuffer(text.encode(), np.uint8), **arrays)
    return path


def load(path: str | Path) -> tuple[dict[str, list[Chain]], list[str], dict[str, str]]:
    """Chains of one call each, the layers without attention, and those that were not seen into."""
    path = located(path)
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            arrays = dict(found) if isinstance(found, np.lib.npyio.NpzFile) else {}
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # What a broken archive raises is nowhere written down.
        raise FileError(f"{path} cannot be read as a recording: {error}") from None
    try:
        about = json.loads(arrays["recording"].tobytes())
        if about["format"] != _FORMAT:
            raise FileError(f"{path} is a recording of format {about['format']!r}, and this version reads {_FORMAT}")
        chains: dict[str, list[Chain]] = {}
        for place, entry in enumerate(about["entries"]):
            own = {key.partition(".")[2]: x for key, x in arrays.items() if key.partition(".")[0] == str(place)}
            chains.setdefault(str(entry["name"]), []).append(_chain(entry, own))
        unseen = {str(name): str(why) for name, why in about.get("unseen", {}).items()}
        return chains, [str(name) for name in about["without"]], unseen
    except (KeyError, TypeError, ValueError, AttributeError, UnicodeDecodeError) as error:
        raise FileError(f"{path} holds no recording: {type(error).__name__} {error}") from None


def _joined(chain: Chain) -> Link:
    """A chain as one call."""
    last = chain.links[-1]
    seen, bias = chain.seen()
    link = Link(
        last.way, last.step, last.scale, last.softcap, last.sinks, seen, last.heads, last.key_heads, last.batch,
        chain.rows, chain.width, last.wide, owned(chain.lse()), chain.counts(), last.start, seen.last,
        chain.deviation, bias=bias, ids=chain.ids,
    )  # fmt: skip
    if last.statistics is not None:
        entropy, previous, induction = (_tensor(chain.per_row(x)) for x in ("entropy", "previous", "induction"))
        top = chain.top()
        assert entropy is not None
        assert previous is not None
        link.statistics = Statistics(
            owned(chain.received()),
            entropy,
            None if top is None else (owned(top[0]), owned(top[1])),
            previous,
            induction,
        )
        return link
    problem = chain.problem()
    if last.weights is None:
        link.q, link.k = Loaded(problem.q), Loaded(problem.k)
    else:
        assert problem.bias is not None
        link.weights = Loaded(np.exp(np.asarray(problem.bias.parameter)))
    return link


def _arrays(link: Link) -> Iterator[tuple[str, np.ndarray]]:
    yield from (("lse", array(link.lse)), ("counts", link.counts), ("start", link.start))
    yield from (("first", link.visible.first), ("last", link.visible.last))
    optional = {"sinks": link.sinks, "rest": link.visible.rest, "bias": link.bias, "ids": link.ids}
    optional |= {name: None if x is None else x.array for name, x in _held(link).items()}
    if link.statistics is not None:
        kept = link.statistics
        indices, heaviest = kept.top or (None, None)
        found = {"received": kept.received, "entropy": kept.entropy, "indices": indices, "heaviest": heaviest}
        found |= {"previous": kept.previous, "induction": kept.induction}
        optional |= {name: None if x is None else array(x) for name, x in found.items()}
    yield from ((name, np.asarray(x)) for name, x in optional.items() if x is not None)


def _held(link: Link) -> dict[str, Any]:
    return {"q": link.q, "k": link.k, "weights": link.weights}


_NUMBERS = ("way", "step", "scale", "softcap", "heads", "key_heads", "batch", "T", "S", "deviation")


def _numbers(link: Link) -> dict[str, Any]:
    return {name: getattr(link, name) for name in _NUMBERS}


def _chain(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> Chain:
    numbers = {name: entry[name] for name in _NUMBERS}
    link = Link(
        **numbers,
        sinks=arrays.get("sinks"),
        visible=Visible(arrays["first"], arrays["last"], arrays.get("rest")),
        wide=np.float64 if arrays["lse"].dtype == np.float64 else np.float32,
        lse=torch.from_numpy(arrays["lse"]),
        counts=arrays["counts"],
        start=arrays["start"],
        ends=arrays["last"],
        bias=arrays.get("bias"),
        ids=arrays.get("ids"),
    )
    for name in ("q", "k", "weights"):
        if name in arrays:
            setattr(link, name, Loaded(arrays[name]))
    if "received" in arrays:
        indices, heaviest, received, entropy, previous, induction = (
            _tensor(arrays.get(name))
            for name in ("indices", "heaviest", "received", "entropy", "previous", "induction")
        )
        top = None if indices is None or heaviest is None else (indices, heaviest)
        if received is None or entropy is None or previous is None:
            raise KeyError("entropy")
        link.statistics = Statistics(received, entropy, top, previous, induction)
    elif "weights" not in arrays and not {"q", "k"} <= set(arrays):
        raise KeyError("q")
    chain = Chain(link)
    chain.cross, chain.lead = bool(entry["cross"]), int(entry["lead"])
    return chain


def _tensor(x: np.ndarray | None) -> Tensor | None:
    return None if x is None else owned(x)


def _plain(x: np.ndarray) -> np.ndarray:
    """Types that only NumPy's additions know, as the float32 that holds them."""
    return widened(x, np.dtype(np.float32)) if dtype_name(x) == "bfloat16" else x
