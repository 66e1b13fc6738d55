"""Models in files: numbers as safetensors, everything else that inference needs as JSON in the same file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overt.errors import ArgumentError, FileError
from overt.models.recurrent import Recurrent
from overt.models.transformer import Transformer
from overt.models.vocabulary import Vocabulary
from overt.writing import replaced

FORMAT = "overt encoder-decoder 1"
# No translation has more tokens.
MOST = 1000
ARCHITECTURES: dict[str, type[Transformer] | type[Recurrent]] = {"transformer": Transformer, "rnn": Recurrent}


@dataclass(frozen=True)
class Limit:
    """The most tokens that a translation may have: ``extra``, and ``ratio`` for each token of its source.

    What is not said allows a character for each letter of an English piece.
    """

    ratio: float = 10.0
    extra: int = 20

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1000:
                raise ArgumentError(f"the {name} of a limit must be a number from 0 to 1000, not {value!r}")

    @staticmethod
    def learn(lengths: Iterable[tuple[int, int]]) -> Limit:
        """The limit for translations like some, by the tokens of their sources and their own.

        The ratio is a quarter more than that which only one in a thousand exceeds.
        """
        ratios = [target / max(1, source) for source, target in lengths]
        return Limit(min(1000.0, round(1.25 * float(np.quantile(ratios, 0.999)), 2))) if ratios else Limit()

    def of(self, tokens: int) -> int:
        """The most tokens of the translation of so many."""
        return max(1, min(MOST, math.ceil(self.ratio * tokens + self.extra)))


@dataclass(frozen=True)
class Checkpoint:
    """A model and its vocabularies; ``parameters`` has flat names, ``card`` says where it comes from."""

    model: Transformer | Recurrent
    source: Vocabulary
    target: Vocabulary
    parameters: Mapping[str, np.ndarray]
    card: Mapping[str, Any]
    limit: Limit = Limit()

    def __repr__(self) -> str:
        return f"Checkpoint({type(self.model).__name__}, source {self.source!r}, target {self.target!r})"


def save(path: Path, checkpoint: Checkpoint, *, half: bool = False) -> None:
    """Write a checkpoint; ``half`` keeps the parameters as float16."""
    described = {
        "architecture": next(name for name, kind in ARCHITECTURES.items() if isinstance(checkpoint.model, kind)),
        "model": asdict(checkpoint.model),
        "source": checkpoint.source.described(),
        "target": checkpoint.target.described(),
        "limit": asdict(checkpoint.limit),
        "card": checkpoint.card,
    }
    dtype = np.float16 if half else np.float32
    write(path, {name: array.astype(dtype) for name, array in checkpoint.parameters.items()}, FORMAT, described)


def load(path: Path) -> Checkpoint:
    """Read what ``save`` wrote, the parameters as float32.  Raises FileError for anything else."""
    arrays, described = read(path, FORMAT)
    try:
        kind, sizes, card = ARCHITECTURES[described["architecture"]], described["model"], described["card"]
        # Every layer has arrays of its own: no file can ask for more room than it takes.
        if any(name.endswith("_layers") and size > len(arrays) for name, size in sizes.items()):
            raise ArgumentError(f"{len(arrays)} arrays are not enough for so many layers")
        model, limit = kind(**sizes), Limit(**described.get("limit", {}))
        source, target = Vocabulary.of(described["source"]), Vocabulary.of(described["target"])
        if not isinstance(card, dict):
            raise ArgumentError("its card is no object")
        expected = model.shapes()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # What Python says of a missing name is but the name.
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise FileError(f"{path} does not describe a model that this version knows: {why}") from None
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected or (model.source_size, model.target_size) != (len(source), len(target)):
        wrong = next((name for name in {**found, **expected} if found.get(name) != expected.get(name)), "vocabulary")
        raise FileError(f"{path} contradicts itself at {wrong}: it is damaged, or written by another version")
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise FileError(f"{path} holds {name} as {array.dtype}: parameters are floating-point numbers")
    return Checkpoint(model, source, target, {k: v.astype(np.float32) for k, v in arrays.items()}, card, limit)


def write(path: Path, arrays: Mapping[str, np.ndarray], kind: str, described: Any) -> None:
    """One safetensors file, whole or not at all, with a checksum over all that it says."""
    from safetensors.numpy import save as to_bytes

    text = json.dumps(described, ensure_ascii=False)
    metadata = {"format": kind, "overt": text, "sha256": _checksum(arrays, text)}
    data = to_bytes({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    with replaced(path) as file:
        file.write(data)


def read(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What ``write`` wrote under this kind of format.  Raises FileError for what is damaged or of another kind."""
    from safetensors import SafetensorError, safe_open

    try:
        # safe_open names no reason where a file is missing or a folder.
        with path.open("rb"):
            pass
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != kind:
                raise FileError(f"{path} is a safetensors file, but no {kind}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
        # The bundled models are older than checksums.
        if metadata.get("sha256", found := _checksum(arrays, metadata["overt"])) != found:
            raise FileError(f"{path} is damaged: its contents are not those that were written")
        return arrays, json.loads(metadata["overt"])
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{path} is not a complete safetensors file: {error}") from None


def _checksum(arrays: Mapping[str, np.ndarray], text: str) -> str:
    """SHA-256 of a text and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
