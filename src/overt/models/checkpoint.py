"""Models in files: numbers as safetensors, everything else that inference needs as JSON in the same file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overt.errors import FileError
from overt.models.recurrent import Recurrent
from overt.models.transformer import Transformer
from overt.models.vocabulary import Vocabulary
from overt.writing import replaced

FORMAT = "overt encoder-decoder 1"
ARCHITECTURES: dict[str, type[Transformer] | type[Recurrent]] = {"transformer": Transformer, "rnn": Recurrent}


@dataclass(frozen=True)
class Checkpoint:
    """A model and its vocabularies; ``parameters`` has flat names, ``card`` says where it comes from."""

    model: Transformer | Recurrent
    source: Vocabulary
    target: Vocabulary
    parameters: Mapping[str, np.ndarray]
    card: Mapping[str, Any]


def save(path: Path, checkpoint: Checkpoint, *, half: bool = False) -> None:
    """Write a checkpoint; ``half`` keeps the parameters as float16."""
    described = {
        "architecture": next(name for name, kind in ARCHITECTURES.items() if isinstance(checkpoint.model, kind)),
        "model": asdict(checkpoint.model),
        "source": checkpoint.source.described(),
        "target": checkpoint.target.described(),
        "card": checkpoint.card,
    }
    dtype = np.float16 if half else np.float32
    write(path, {name: array.astype(dtype) for name, array in checkpoint.parameters.items()}, FORMAT, described)


def load(path: Path) -> Checkpoint:
    """Read what ``save`` wrote, the parameters as float32.  Raises FileError for anything else."""
    arrays, described = read(path, FORMAT)
    try:
        model = ARCHITECTURES[described["architecture"]](**described["model"])
        source, target = Vocabulary.of(described["source"]), Vocabulary.of(described["target"])
        expected = model.shapes()
        card = dict(described["card"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise FileError(f"{path} does not describe a model that this version knows: {error!r}") from None
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected or (model.source_size, model.target_size) != (len(source), len(target)):
        wrong = next((name for name in {**found, **expected} if found.get(name) != expected.get(name)), "vocabulary")
        raise FileError(f"{path} contradicts itself at {wrong}: it is damaged, or written by another version")
    return Checkpoint(model, source, target, {k: v.astype(np.float32) for k, v in arrays.items()}, card)


def write(path: Path, arrays: Mapping[str, np.ndarray], kind: str, described: Any) -> None:
    """One safetensors file, whole or not at all."""
    from safetensors.numpy import save as to_bytes

    metadata = {"format": kind, "overt": json.dumps(described, ensure_ascii=False)}
    data = to_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)
    with replaced(path) as file:
        file.write(data)


def read(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What ``write`` wrote under this kind of format."""
    from safetensors import SafetensorError, safe_open

    try:
        # safe_open names no reason where a file is missing or a folder.
        with path.open("rb"):
            pass
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != kind:
                raise FileError(f"{path} is a safetensors file, but no {kind}")
            described = json.loads(metadata["overt"])
            return {name: file.get_tensor(name) for name in file.keys()}, described  # noqa: SIM118, it is no mapping
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(f"{path} is not a complete safetensors file: {error}") from None
