"""Transformers as folders that CTranslate2 loads: the same numbers, the same vocabularies, the same tokens out.

CTranslate2 knows nothing of how text is cut up: it takes what ``Vocabulary.split`` gives, and ``Vocabulary.join`` reads
what it answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from overt import layers, positions
from overt.errors import ArgumentError, DependencyError
from overt.layers import Parameters
from overt.models.checkpoint import Checkpoint
from overt.models.transformer import Transformer
from overt.models.vocabulary import END, PADDING, SPECIAL, START, UNKNOWN
from overt.writing import replaced_folder

# CTranslate2 reads no more than this at a time, and overt writes less.
_POSITIONS = 1024
# Added to the score of a token that is never written; small enough to be nothing, and a float16.
_NEVER = -60_000


def save(folder: Path, checkpoint: Checkpoint, *, overwrite: bool = False) -> None:
    """Write what ``ctranslate2.Translator(folder)`` loads, whole or not at all, in float32.

    overwrite: put it in the place of a folder that holds such files and no others.  Raises ArgumentError for models
    that CTranslate2 does not know, FileError, and DependencyError where CTranslate2 is not installed.
    """
    if not isinstance(checkpoint.model, Transformer):
        raise ArgumentError("CTranslate2 knows Transformers only: this model is an attention RNN")
    with replaced_folder(folder, overwrite=overwrite) as new:
        spec = _spec(checkpoint.model, layers.nested(checkpoint.parameters))
        spec.register_source_vocabulary(list(checkpoint.source.tokens))
        spec.register_target_vocabulary(list(checkpoint.target.tokens))
        spec.validate()
        spec.optimize()
        spec.save(str(new))


def _spec(model: Transformer, parameters: Parameters) -> Any:
    try:
        from ctranslate2.specs import TransformerSpec
    except ImportError:
        raise DependencyError("exporting to CTranslate2 needs ctranslate2: pip install 'overt[ctranslate2]'") from None
    spec = TransformerSpec.from_config(
        (model.encoder_layers, model.decoder_layers), model.heads, pre_norm=False, alignment_layer=model.alignment_layer
    )
    spec.config.unk_token, spec.config.bos_token = SPECIAL[UNKNOWN], SPECIAL[START]
    spec.config.eos_token, spec.config.decoder_start_token = SPECIAL[END], SPECIAL[START]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5
    encodings = positions.sinusoidal(_POSITIONS, model.width).astype(np.float32)
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = encodings
    spec.encoder.embeddings[0].weight = parameters["source_embedding"]
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = parameters["target_embedding"]
    spec.decoder.projection.bias = np.zeros(model.target_size, np.float32)
    spec.decoder.projection.bias[[PADDING, START]] = _NEVER
    for layer, part in zip(spec.encoder.layer, parameters["encoder"], strict=True):
        _attention(layer.self_attention, part, "attention", [("query", "key", "value"), ("output",)])
        _feed_forward(layer.ffn, part)
    for layer, part in zip(spec.decoder.layer, parameters["decoder"], strict=True):
        _attention(layer.self_attention, part, "attention", [("query", "key", "value"), ("output",)])
        _attention(layer.attention, part, "cross", [("query",), ("key", "value"), ("output",)])
        _feed_forward(layer.ffn, part)
    return spec


def _attention(spec: Any, layer: Parameters, name: str, joined: list[tuple[str, ...]]) -> None:
    for linear, roles in zip(spec.linear, joined, strict=True):
        _linear(linear, layer[name], *roles)
    _norm(spec.layer_norm, layer[f"{name}_norm"])


def _feed_forward(spec: Any, layer: Parameters) -> None:
    _linear(spec.linear_0, layer["feed_forward"], "inner")
    _linear(spec.linear_1, layer["feed_forward"], "outer")
    _norm(spec.layer_norm, layer["feed_forward_norm"])


def _linear(spec: Any, parameters: Parameters, *names: str) -> None:
    """Maps of one input as one map."""
    spec.weight = np.concatenate([parameters[f"{name}_weight"] for name in names])
    spec.bias = np.concatenate([parameters[f"{name}_bias"] for name in names])


def _norm(spec: Any, parameters: Parameters) -> None:
    spec.gamma, spec.beta = parameters["scale"], parameters["offset"]
