"""Attention with its projections: one head and several, additive and bilinear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from overt.attended import Attended
from overt.attention import attend
from overt.attention import attention as overt_attention
from overt.errors import ArgumentError, ShapeError
from overt.grid import Array, ArrayT, plain
from overt.layers.dense import linear, project
from overt.layers.namespace import array_namespace
from overt.layers.parameters import Parameters
from overt.masks import Mask, padding
from overt.scores import Projected, additive, bilinear

Attention = Callable[..., Array]
"""``overt.attention``, or what stands in for it: a function of q, k, v, score and mask."""
Pair = tuple[Array, Array]
"""Keys and values (…, G, S, D) of one attention."""


def padding_mask(lengths: Array, S: int) -> Mask | Array | None:
    """Which of S keys there are in each row of a padded batch, from lengths (B,); None where all are.

    Tensors give booleans (B, 1, 1, S) and stay on their device, where nobody looks whether all are.
    """
    plain("lengths", lengths)
    if isinstance(lengths, np.ndarray) or not hasattr(lengths, "device"):
        return padding(lengths) if np.any(np.asarray(lengths) < S) else None
    xp = array_namespace(lengths)
    return (xp.arange(S, device=lengths.device) < lengths[:, None])[:, None, None, :]


def watched(found: list[Attended]) -> Attention:
    """``overt.attention`` that also appends what ``overt.attend`` gives for each call to a list."""

    def kept_open(q: Array, k: Array, v: Array, **options: Any) -> Array:
        found.append(attend(q, k, v, **options))
        return found[-1].output

    return kept_open


def single_query_attention(
    current: ArrayT, context: Array, parameters: Parameters, *, attention: Attention = overt_attention
) -> ArrayT:
    """What one vector learns from others.  current (X,), context (S, Z) → (E,).  Algorithm 3.

    Parameters: query_weight (D, X), query_bias (D,), key_weight (D, Z), key_bias (D,), value_weight (E, Z),
    value_bias (E,); the biases may be left out.
    """
    return attention_layer(current[None, :], context, parameters, attention=attention)[0, :]


def attention_layer(
    x: ArrayT,
    context: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> ArrayT:
    """One head: every row of x (…, T, X) attends to the context (…, S, Z) → (…, T, E).  Algorithm 4.

    The context is x itself for self-attention, another sequence for cross-attention.  Parameters as in
    ``single_query_attention``.
    """
    q, k, v = (
        project(source, parameters, name)[..., None, :, :]
        for source, name in ((x, "query"), (context, "key"), (context, "value"))
    )
    return attention(q, k, v, mask=mask)[..., 0, :, :]


def multi_head_attention(
    x: ArrayT,
    context: Array,
    parameters: Parameters,
    *,
    heads: int,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> ArrayT:
    """Several heads whose outputs are joined and mapped.  x (…, T, X), context (…, S, Z) → (…, T, O).  Algorithm 5.

    Parameters: query_weight (H·D, X), key_weight (G·D, Z), value_weight (G·E, Z), output_weight (O, H·E), and a bias
    for each, which may be left out.  With fewer key heads G than query heads H, queries share them in groups.
    """
    q = _split_queries(x, parameters, heads)
    k, v = _grouped(context, parameters, q.shape[-1])
    return _mapped(attention(q, k, v, mask=mask), parameters)


def keys_and_values(context: Array, parameters: Parameters, *, heads: int) -> Pair:
    """What ``multi_head_attention`` looks at and what it takes: (…, G, S, D) and (…, G, S, E)."""
    return _grouped(context, parameters, _head_width(parameters["query_weight"].shape[0], heads))


def mix_heads(
    x: ArrayT,
    k: Array,
    v: Array,
    parameters: Parameters,
    *,
    heads: int,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> ArrayT:
    """``multi_head_attention`` to keys and values that are known already, as when decoding step by step."""
    return _mapped(attention(_split_queries(x, parameters, heads), k, v, mask=mask), parameters)


def additive_attention(
    queries: ArrayT,
    keys: Array,
    values: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> ArrayT:
    """v · tanh(W q + U k + b) scores.  queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E).

    Parameters: query_weight (A, Dq), key_weight (A, Dk), score_weight (A,), bias (A,), which may be left out.
    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2.
    """
    score = additive(
        parameters["query_weight"], parameters["key_weight"], parameters["score_weight"], parameters.get("bias")
    )
    q, k, v = (z[..., None, :, :] for z in (queries, keys, values))
    return attention(q, k, v, score=score, mask=mask)[..., 0, :, :]


def additive_keys(keys: ArrayT, parameters: Parameters) -> ArrayT:
    """U k, what ``additive_attention`` compares: keys (…, S, Dk) → (…, S, A)."""
    return linear(keys, parameters["key_weight"])


def mix_additive(
    queries: ArrayT,
    keys: Array,
    values: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> ArrayT:
    """``additive_attention`` to ``additive_keys`` that are known already, as when decoding step by step."""
    projected = linear(queries, parameters["query_weight"], parameters.get("bias"))
    q, k, v = (z[..., None, :, :] for z in (projected, keys, values))
    return attention(q, k, v, score=Projected(parameters["score_weight"]), mask=mask)[..., 0, :, :]


def bilinear_attention(
    queries: ArrayT,
    keys: Array,
    values: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> ArrayT:
    """q W kᵀ scores.  queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E).

    Parameters: product_weight (Dq, Dk).  Luong et al. 2015 (arXiv:1508.04025), "general".
    """
    q, k, v = (z[..., None, :, :] for z in (queries, keys, values))
    return attention(q, k, v, score=bilinear(parameters["product_weight"]), mask=mask)[..., 0, :, :]


def _split_queries(x: Array, parameters: Parameters, heads: int) -> Array:
    """Queries of all heads: (…, T, X) → (…, H, T, D)."""
    q = project(x, parameters, "query")
    _head_width(q.shape[-1], heads)
    return _split(q, heads)


def _grouped(context: Array, parameters: Parameters, width: int) -> Pair:
    """Keys of this width and values: (…, S, Z) → (…, G, S, D), (…, G, S, E)."""
    if "key" not in parameters:
        rows, value_rows = (int(parameters[f"{name}_weight"].shape[0]) for name in ("key", "value"))
        if rows < width or rows % width or value_rows % (rows // width):
            raise ShapeError(
                f"key_weight {tuple(parameters['key_weight'].shape)} and value_weight "
                f"{tuple(parameters['value_weight'].shape)} do not split into heads of width {width}"
            )
    k, v = project(context, parameters, "key"), project(context, parameters, "value")
    groups = k.shape[-1] // width
    return _split(k, groups), _split(v, groups)


def _head_width(rows: int, heads: int) -> int:
    if heads < 1 or rows % heads:
        raise ArgumentError(f"query_weight has {rows} rows, which do not split into {heads} heads")
    return rows // heads


def _split(x: Array, heads: int) -> Array:
    """(…, T, H·D) → (…, H, T, D)."""
    return _swapped(array_namespace(x).reshape(x, (*x.shape[:-1], heads, x.shape[-1] // heads)))


def _mapped(x: Array, parameters: Parameters) -> Array:
    """The heads joined and mapped: (…, H, T, E) → (…, T, O)."""
    x = _swapped(x)
    joined = array_namespace(x).reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    return project(joined, parameters, "output")


def _swapped(x: Array) -> Array:
    """(…, A, B, C) → (…, B, A, C)."""
    n = x.ndim
    return array_namespace(x).permute_dims(x, (*range(n - 3), n - 2, n - 3, n - 1))
