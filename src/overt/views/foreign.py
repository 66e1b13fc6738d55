"""What other libraries call attention, as labelled attention: arrays of weights, and the containers they come in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from overt.errors import ArgumentError, DtypeError
from overt.given import given
from overt.views.labels import Labelled

# The arguments of a BertViz view, and those of a model's output: what they hold, and what that attends to.
_NAMED = {
    "attention": "attention",
    "attentions": "attention",
    "encoder_attention": "encoder",
    "encoder_attentions": "encoder",
    "decoder_attention": "decoder",
    "decoder_attentions": "decoder",
    "cross_attention": "cross",
    "cross_attentions": "cross",
}
# The names under which TransformerLens keeps weights, in its two ways to write them.
_PATTERN = re.compile(r"blocks\.(\d+)\.attn\.hook_pattern|\('pattern', (\d+), 'attn'\)")


def labelled(x: Any, tokens: Sequence[str] | None, queries: Sequence[str] | None) -> list[Labelled] | None:
    """Weights of one layer or of several; None for what is nothing of that kind.

    x: an array (…, H, T, S); a sequence of one per layer, as ``output_attentions=True`` returns; of those of one step
    after another, as ``generate`` returns, the prompt's are shown; a mapping with the names that a model's output or a
    call of BertViz has (``attention``, ``encoder_attention``, ``cross_attention``, ``tokens`` …); or a cache of
    TransformerLens (``blocks.0.attn.hook_pattern``).
    """
    if _is_array(x):
        return [Labelled(given(x), tokens, queries)]
    if hasattr(x, "cache_dict"):
        x = x.cache_dict
    if isinstance(x, Mapping):
        return _of_mapping(x, tokens, queries)
    if isinstance(x, Sequence) and not isinstance(x, str) and x and all(_is_array(y) or _is_steps(y) for y in x):
        return list(_layers(x, "attention", tokens, queries))
    return None


def _of_mapping(x: Mapping[Any, Any], tokens: Any, queries: Any) -> list[Labelled] | None:
    patterns = {}
    for key, weights in x.items():
        if found := _PATTERN.fullmatch(str(key)):
            patterns[int(found[1] or found[2])] = weights
    if patterns:
        return [Labelled(given(patterns[i]), tokens, queries, layer=i) for i in sorted(patterns)]
    parts: list[Labelled] = []
    for key, name in _NAMED.items():
        if x.get(key) is None:
            continue
        source, target = x.get("encoder_tokens"), x.get("decoder_tokens")
        own = {
            "encoder": (source, source),
            "decoder": (target, target),
            "cross": (source, target),
            "attention": (x.get("tokens"), None),
        }[name]
        keys, rows = own if own[0] is not None else (tokens, queries)
        several = [x[key]] if _is_array(x[key]) else x[key]
        parts += _layers(several, name, keys, rows)
    return parts or None


def _layers(several: Any, name: str, tokens: Any, queries: Any) -> Iterator[Labelled]:
    if not isinstance(several, Sequence) or not len(several):
        raise ArgumentError(
            f"{name} holds no weights: a model that runs on a fused kernel returns none, but overt.record sees them"
        )
    if _is_steps(several[0]):
        several = several[0]
    for layer, weights in enumerate(several):
        if not _is_array(weights):
            raise DtypeError(f"layer {layer} of {name} is a {type(weights).__name__}, not an array of weights")
        yield Labelled(given(weights), tokens, queries, name=name, layer=layer)


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "ndim")


def _is_steps(x: Any) -> bool:
    """One generated token's weights, a tuple with an array for each layer."""
    return isinstance(x, tuple | list) and bool(x) and all(_is_array(y) for y in x)
