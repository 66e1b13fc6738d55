"""What other libraries call attention, as labelled attention: arrays of weights, and the containers they come in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from overt.errors import ArgumentError, DtypeError
from overt.given import given
from overt.grid import brief, host
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
_PATTERN = re.compile(r"(blocks|encoder|decoder)\.(\d+)\.(cross_)?attn\.hook_pattern|\('pattern', (\d+), 'attn'\)")
_NONE = "holds no weights: a model that runs on a fused kernel returns none, but overt.record sees them"


def labelled(x: Any, tokens: Sequence[str] | None, queries: Sequence[str] | None) -> list[Labelled] | None:
    """Weights of one layer or of several; None for what is nothing of that kind.

    x: an array (…, H, T, S); a sequence of one per layer, as ``output_attentions=True`` returns; of those of one step
    after another, as ``generate`` returns, which are joined; a mapping with the names that a model's output or a call
    of BertViz has (``attention``, ``encoder_attention``, ``cross_attention``, ``tokens``, ``include_layers`` …); or a
    cache of TransformerLens (``blocks.0.attn.hook_pattern``).
    tokens, queries: names of keys and queries; beside encoder, decoder and cross-attention those of the source and of
    the target.
    """
    if _is_array(x):
        return [Labelled(given(x), tokens, queries)]
    if hasattr(x, "cache_dict"):
        x = x.cache_dict
    if isinstance(x, Mapping):
        return _of_mapping(x, tokens, queries)
    if isinstance(x, Sequence) and not isinstance(x, str):
        # A list is what somebody has made, a tuple what a model gave.
        if all(y is None for y in x) and (x or isinstance(x, tuple)):
            raise ArgumentError(f"attention {_NONE}")
        if x and all(_is_array(y) or _is_steps(y) for y in x):
            return list(_layers(x, "attention", tokens, queries))
    return None


def _of_mapping(x: Mapping[Any, Any], tokens: Any, queries: Any) -> list[Labelled] | None:
    patterns = {}
    for key, weights in x.items():
        if found := _PATTERN.fullmatch(str(key)):
            kind = "cross" if found[3] else {"encoder": "encoder", "decoder": "decoder"}.get(found[1], "attention")
            patterns[kind, int(found[2] or found[4])] = weights
    if patterns:
        order = sorted(patterns, key=lambda place: (list(_NAMED.values()).index(place[0]), place[1]))
        names = _names(x, {kind for kind, _ in order}, tokens, queries)
        return [Labelled(given(patterns[at]), *names[at[0]], name=at[0], layer=at[1]) for at in order]
    several = {name: x[key] for key, name in _NAMED.items() if x.get(key) is not None}
    # An output has a place for each kind, and nothing in those that the model has not.
    there = {name: layers for name, layers in several.items() if _is_array(layers) or len(layers)}
    if not there:
        if several:
            raise ArgumentError(f"{' and '.join(several)} {_NONE}")
        return None
    names, chosen = _names(x, there.keys(), tokens, queries), x.get("include_layers")
    parts: list[Labelled] = []
    for name, layers in there.items():
        parts += _layers([layers] if _is_array(layers) else layers, name, *names[name], chosen)
    return parts


def _names(x: Mapping[Any, Any], kinds: Any, tokens: Any, queries: Any) -> dict[str, tuple[Any, Any]]:
    """Names of keys and queries of each kind of attention."""
    if x.get("tokens") is not None:
        tokens = x["tokens"]
    source = x["encoder_tokens"] if x.get("encoder_tokens") is not None else tokens
    target = x["decoder_tokens"] if x.get("decoder_tokens") is not None else queries
    # A decoder by itself has no other names than these.
    own = target if target is not None or {"encoder", "cross"} & set(kinds) else tokens
    return {
        "attention": (tokens, queries),
        "encoder": (source, None),
        "decoder": (own, None),
        "cross": (source, target),
    }


def _layers(several: Any, name: str, tokens: Any, queries: Any, chosen: Any = None) -> Iterator[Labelled]:
    prompt = None
    if _is_steps(several[0]):
        prompt = int(several[0][0].shape[-2])
        several = [_joined(steps, name) for steps in zip(*several, strict=True)]
    for layer, weights in enumerate(several):
        if chosen is not None and layer not in chosen:
            continue
        if weights is None:
            raise ArgumentError(f"layer {layer} of {name} {_NONE}")
        if not _is_array(weights):
            raise DtypeError(f"layer {layer} of {name} is a {type(weights).__name__}, not an array of weights")
        yield Labelled(given(weights), tokens, queries, name=name, layer=layer, prompt=prompt)


def _joined(steps: Sequence[Any], name: str) -> np.ndarray:
    """What one layer computed in one step (…, T, S) after another, as rows of one matrix."""
    arrays = [host("weights", step) for step in steps]
    arrays = [x if x.dtype.name in ("float32", "float64") else x.astype(np.float32) for x in arrays]
    rows, S = [x.shape[-2] for x in arrays], [x.shape[-1] for x in arrays]
    grows = all(after - before == n for before, after, n in zip(S[:-1], S[1:], rows[1:], strict=True))
    room = all(s == S[0] for s in S) and (name == "cross" or sum(rows) <= S[0])
    if not (grows or room):
        raise ArgumentError(
            f"the steps of {name} have {brief(np.array(S))} keys, which is no cache that grows: give one step, "
            "such as attentions[0], or record the generation with overt.record"
        )
    return np.concatenate([np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, S[-1] - x.shape[-1])]) for x in arrays], -2)


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "ndim")


def _is_steps(x: Any) -> bool:
    """One generated token's weights, a tuple with an array for each layer."""
    return isinstance(x, tuple | list) and bool(x) and all(_is_array(y) for y in x)
