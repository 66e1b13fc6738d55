"""Pure functions from arrays and named parameters to arrays: what Transformers and attention RNNs are made of.

One definition serves NumPy, torch and any other library of the array API standard.  Vectors are rows: x (…, T, D).
A weight (out, in) maps x to x weightᵀ, as in torch.  Parameters come as mappings from names to arrays, or to further
mappings and lists of them; ``nested`` makes these of flat names as they stand in a file ("encoder.0.norm.scale").

Algorithm numbers are those of Phuong & Hutter 2022, Formal Algorithms for Transformers (arXiv:2207.09238).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, sqrt
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from overt import positions
from overt.attended import Attended
from overt.attention import attend
from overt.attention import attention as overt_attention
from overt.errors import ArgumentError, ShapeError
from overt.grid import Array, host
from overt.masks import Mask, causal, padding
from overt.scores import Projected, additive, bilinear

Parameters = Mapping[str, Any]
"""Names to arrays, or to further parameters, or to lists of these."""
Attention = Callable[..., Array]
"""``overt.attention``, or what stands in for it: a function of q, k, v, score and mask."""
Pair = tuple[Array, Array]
"""Keys and values (…, G, S, D) of one attention."""

_CAUSAL = causal()


def watched(found: list[Attended]) -> Attention:
    """``overt.attention`` that also appends what ``overt.attend`` gives for each call to a list."""

    def look(q: Array, k: Array, v: Array, **options: Any) -> Array:
        found.append(attend(q, k, v, **options))
        return found[-1].output

    return look


def keep(x: Array) -> Array:
    """The dropout that drops nothing."""
    return x


def nested(flat: Mapping[str, Array]) -> dict[str, Any]:
    """Parameters by parts: {"a.0.b": x} becomes {"a": [{"b": x}]}."""
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = array
    return _listed(tree)


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(name.isdigit() for name in node):
        return [_listed(node[name]) for name in sorted(node, key=int)]
    return {name: _listed(part) for name, part in node.items()}


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x weightᵀ + bias.  x (…, I), weight (O, I), bias (O,) → (…, O)."""
    xp = array_namespace(x, weight)
    if x.shape[-1] != weight.shape[1]:
        raise ShapeError(f"x has width {x.shape[-1]} but the weight {tuple(weight.shape)} maps {weight.shape[1]}")
    # NumPy multiplies a stack of matrices one by one.
    rows = xp.reshape(x, (-1, x.shape[-1])) if x.ndim > 2 and x.shape[-1] else x
    columns = xp.matrix_transpose(weight)
    if bias is not None and rows.ndim == 2 and rows.dtype == weight.dtype == bias.dtype and hasattr(xp, "addmm"):
        # torch adds while it multiplies.
        y = xp.addmm(bias, rows, columns)
    else:
        y = xp.matmul(rows, columns)
        y = y if bias is None else y + bias
    return xp.reshape(y, (*x.shape[:-1], weight.shape[0]))


def embedding(table: Array, tokens: Array) -> Array:
    """Rows of a table: table (V, D), tokens (…, T) → (…, T, D).  Algorithm 1, token embedding."""
    xp = array_namespace(table)
    flat = xp.take(table, xp.reshape(tokens, (-1,)), axis=0)
    return xp.reshape(flat, (*tokens.shape, table.shape[1]))


def positional_embedding(table: Array, first: int, count: int) -> Array:
    """Rows first … first + count − 1 of a learned table (N, D).  Algorithm 2, positional embedding."""
    return positions.learned(table, np.arange(first, first + count))


def layer_norm(x: Array, scale: Array, offset: Array, epsilon: float = 1e-5) -> Array:
    """(x − mean) / √(variance + ε) · scale + offset over the last axis.  Algorithm 6."""
    xp = array_namespace(x)
    plain = x.dtype == scale.dtype == offset.dtype and scale.shape == offset.shape == x.shape[-1:]
    if plain and hasattr(xp, "layer_norm"):
        # torch's own is one step, as is its gradient.
        return xp.layer_norm(x, (x.shape[-1],), scale, offset, epsilon)
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    return centred / xp.sqrt(variance + epsilon) * scale + offset


def unembedding(x: Array, table: Array) -> Array:
    """Scores of every token of the vocabulary: x (…, D), table (V, D) → (…, V).

    Algorithm 7 without its softmax, which training and decoding take in the logarithm.
    """
    return linear(x, table)


def softmax(x: Array) -> Array:
    """exp(x) / Σ exp(x) over the last axis, for any finite x."""
    xp = array_namespace(x)
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def relu(x: Array) -> Array:
    """max(x, 0)."""
    xp = array_namespace(x)
    # As with the norm.
    return xp.relu(x) if hasattr(xp, "relu") else xp.clip(x, min=0)


def gelu(x: Array) -> Array:
    """Gaussian error linear unit in its tanh form.  Hendrycks & Gimpel 2016 (arXiv:1606.08415), section 2."""
    xp = array_namespace(x)
    return 0.5 * x * (1 + xp.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(−x)), without overflow."""
    xp = array_namespace(x)
    return 0.5 * (xp.tanh(0.5 * x) + 1)


def single_query_attention(
    current: Array, context: Array, parameters: Parameters, *, attention: Attention = overt_attention
) -> Array:
    """What one vector learns from others.  current (X,), context (S, Z) → (E,).  Algorithm 3.

    Parameters: query_weight (D, X), query_bias (D,), key_weight (D, Z), key_bias (D,), value_weight (E, Z),
    value_bias (E,); the biases may be left out.
    """
    return attention_layer(current[None, :], context, parameters, attention=attention)[0, :]


def attention_layer(
    x: Array,
    context: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> Array:
    """One head: every row of x (…, T, X) attends to the context (…, S, Z) → (…, T, E).  Algorithm 4.

    The context is x itself for self-attention, another sequence for cross-attention.  Parameters as in
    ``single_query_attention``.
    """
    q, k, v = (
        _project(source, parameters, name)[..., None, :, :]
        for source, name in ((x, "query"), (context, "key"), (context, "value"))
    )
    return attention(q, k, v, mask=mask)[..., 0, :, :]


def multi_head_attention(
    x: Array,
    context: Array,
    parameters: Parameters,
    *,
    heads: int,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> Array:
    """Several heads whose outputs are joined and mapped.  x (…, T, X), context (…, S, Z) → (…, T, O).  Algorithm 5.

    Parameters: query_weight (H·D, X), key_weight (G·D, Z), value_weight (G·E, Z), output_weight (O, H·E), and a bias
    for each, which may be left out.  With fewer key heads G than query heads H, queries share them in groups.
    """
    return mix_heads(
        x, *keys_and_values(context, parameters, heads=heads), parameters, heads=heads, mask=mask, attention=attention
    )


def keys_and_values(context: Array, parameters: Parameters, *, heads: int) -> Pair:
    """What ``multi_head_attention`` looks at and what it takes: (…, G, S, D) and (…, G, S, E)."""
    width = _head_width(parameters, heads)
    groups = parameters["key_weight"].shape[0] // width
    if groups * width != parameters["key_weight"].shape[0] or parameters["value_weight"].shape[0] % groups:
        raise ShapeError(
            f"key_weight {tuple(parameters['key_weight'].shape)} and value_weight "
            f"{tuple(parameters['value_weight'].shape)} do not split into heads of width {width}"
        )
    return (
        _split(_project(context, parameters, "key"), groups),
        _split(_project(context, parameters, "value"), groups),
    )


def mix_heads(
    x: Array,
    k: Array,
    v: Array,
    parameters: Parameters,
    *,
    heads: int,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> Array:
    """``multi_head_attention`` to keys and values that are known already, as when decoding step by step."""
    _head_width(parameters, heads)
    q = _split(_project(x, parameters, "query"), heads)
    return _project(_joined(attention(q, k, v, mask=mask)), parameters, "output")


def feed_forward(
    x: Array, parameters: Parameters, *, activation: Callable[[Array], Array] = relu, drop: Attention = keep
) -> Array:
    """inner_weight (F, D), inner_bias, activation, outer_weight (D, F), outer_bias, position by position."""
    return _project(drop(activation(_project(x, parameters, "inner"))), parameters, "outer")


def encoder_layer(
    x: Array,
    parameters: Parameters,
    *,
    heads: int,
    mask: Mask | Array | None = None,
    activation: Callable[[Array], Array] = relu,
    drop: Callable[[Array], Array] = keep,
    attention: Attention = overt_attention,
) -> Array:
    """Self-attention and feed-forward, each added to what came in and normalised.  Algorithm 8, lines 4–8.

    x (…, T, D) → (…, T, D).  Parameters: attention, attention_norm, feed_forward, feed_forward_norm.
    """
    seen = multi_head_attention(x, x, parameters["attention"], heads=heads, mask=mask, attention=attention)
    x = _norm(x + drop(seen), parameters["attention_norm"])
    thought = feed_forward(x, parameters["feed_forward"], activation=activation, drop=drop)
    return _norm(x + drop(thought), parameters["feed_forward_norm"])


def decoder_layer(
    x: Array,
    context: Pair,
    parameters: Parameters,
    *,
    heads: int,
    past: Pair | None = None,
    context_mask: Mask | Array | None = None,
    activation: Callable[[Array], Array] = relu,
    drop: Callable[[Array], Array] = keep,
    attention: Attention = overt_attention,
    cross_attention: Attention = overt_attention,
) -> tuple[Array, Pair]:
    """Causal self-attention, attention to the encoder, feed-forward.  Algorithm 8, lines 12–18.

    x (…, T, D): the positions after those of ``past``, the keys and values of this layer's self-attention so far.
    context: the keys and values of the encoder, from ``keys_and_values``.  Gives x and the new past.
    Parameters: attention, attention_norm, cross, cross_norm, feed_forward, feed_forward_norm.
    """
    k, v = keys_and_values(x, parameters["attention"], heads=heads)
    if past is not None:
        xp = array_namespace(k)
        k, v = xp.concat([past[0], k], axis=-2), xp.concat([past[1], v], axis=-2)
    # The last query stands at the last key, so the same mask serves one new position and all of them.
    seen = mix_heads(x, k, v, parameters["attention"], heads=heads, mask=_CAUSAL, attention=attention)
    x = _norm(x + drop(seen), parameters["attention_norm"])
    seen = mix_heads(x, *context, parameters["cross"], heads=heads, mask=context_mask, attention=cross_attention)
    x = _norm(x + drop(seen), parameters["cross_norm"])
    thought = feed_forward(x, parameters["feed_forward"], activation=activation, drop=drop)
    return _norm(x + drop(thought), parameters["feed_forward_norm"]), (k, v)


def encoder_decoder_transformer(
    source: Array, target: Array, parameters: Parameters, *, heads: int, lengths: Array | None = None
) -> Array:
    """Scores of each next token of the target: source (B, S), target (B, T) → (B, T, V).  Algorithm 8.

    lengths: (B,) of the source.  Parameters: token_embedding, position_embedding, unembedding, and lists of layers,
    encoder and decoder.  Both sides share the embeddings, as the algorithm has it.
    """
    mask = None if lengths is None else padding(lengths)
    z = _embedded(source, parameters)
    for layer in parameters["encoder"]:
        z = encoder_layer(z, layer, heads=heads, mask=mask)
    x = _embedded(target, parameters)
    for layer in parameters["decoder"]:
        context = keys_and_values(z, layer["cross"], heads=heads)
        x = decoder_layer(x, context, layer, heads=heads, context_mask=mask)[0]
    return unembedding(x, parameters["unembedding"])


def encoder_transformer(tokens: Array, parameters: Parameters, *, heads: int, lengths: Array | None = None) -> Array:
    """Scores of the token at each place, from both sides: tokens (B, T) → (B, T, V).  Algorithm 9 (BERT).

    Parameters: token_embedding, position_embedding, layers, final_weight, final_bias, final_norm and unembedding.
    """
    mask = None if lengths is None else padding(lengths)
    x = _embedded(tokens, parameters)
    for layer in parameters["layers"]:
        x = encoder_layer(x, layer, heads=heads, mask=mask, activation=gelu)
    x = _norm(gelu(_project(x, parameters, "final")), parameters["final_norm"])
    return unembedding(x, parameters["unembedding"])


def decoder_transformer(tokens: Array, parameters: Parameters, *, heads: int) -> Array:
    """Scores of each next token: tokens (B, T) → (B, T, V).  Algorithm 10 (GPT), which normalises before each part.

    Parameters: token_embedding, position_embedding, layers, final_norm and unembedding.
    """
    x = _embedded(tokens, parameters)
    for layer in parameters["layers"]:
        calm = _norm(x, layer["attention_norm"])
        x = x + multi_head_attention(calm, calm, layer["attention"], heads=heads, mask=_CAUSAL)
        calm = _norm(x, layer["feed_forward_norm"])
        x = x + feed_forward(calm, layer["feed_forward"], activation=gelu)
    return unembedding(_norm(x, parameters["final_norm"]), parameters["unembedding"])


def generate(
    scores: Callable[[Array], Array],
    prompt: np.ndarray,
    count: int,
    *,
    temperature: float = 1.0,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Go on from a prompt (B, T) for ``count`` tokens (B, count).  Algorithm 14.

    Tokens are drawn by their probability; without ``rng`` they are the likeliest.
    scores: of each next token, such as ``decoder_transformer`` with its parameters; it is asked anew at every step.
    """
    if not 0 < temperature < np.inf:
        raise ArgumentError(f"temperature must be a positive number, not {temperature}: the likeliest come without rng")
    tokens = np.asarray(prompt)
    for _ in range(count):
        last = host("scores", scores(tokens))[:, -1, :].astype(np.float64)
        if rng is None:
            new = last.argmax(axis=-1)
        else:
            # The largest of scores with Gumbel noise is a draw from their softmax.
            new = (last / temperature + rng.gumbel(size=last.shape)).argmax(axis=-1)
        tokens = np.concatenate([tokens, new[:, None]], axis=1)
    return tokens[:, np.shape(prompt)[1] :]


def gru_cell(x: Array, state: Array, parameters: Parameters) -> Array:
    """One step of a gated recurrent unit: x (…, X), state (…, D) → (…, D).

    Parameters: input_weight (3D, X), input_bias, state_weight (3D, D), state_bias, in the order reset, update,
    candidate; the reset gate acts after the product, as in torch.  Cho et al. 2014 (arXiv:1406.1078), section 2.3.
    """
    return _gated(_project(x, parameters, "input"), state, parameters)


def _gated(driven: Array, state: Array, parameters: Parameters) -> Array:
    """A step of the unit from what its input contributes, which can be had for all steps at once."""
    D = state.shape[-1]
    held = _project(state, parameters, "state")
    gates = sigmoid(driven[..., : 2 * D] + held[..., : 2 * D])
    xp = array_namespace(state)
    candidate = xp.tanh(driven[..., 2 * D :] + gates[..., :D] * held[..., 2 * D :])
    return candidate + gates[..., D:] * (state - candidate)


def gru(
    x: Array,
    parameters: Parameters,
    *,
    lengths: Array | None = None,
    backwards: bool = False,
    state: Array | None = None,
) -> Array:
    """A gated recurrent unit along x (B, T, X) → (B, T, D): the state after each position.

    lengths: (B,); behind the end of a row the state stands still.
    """
    xp = array_namespace(x)
    driven = _project(x, parameters, "input")
    D = parameters["state_weight"].shape[1]
    if state is None:
        state = xp.zeros_like(driven[:, 0, :D])
    states: list[Any] = [None] * x.shape[1]
    # Cut at once, so that the gradient is put together at once.
    steps = list(enumerate(xp.unstack(driven, axis=1)))
    for t, step in reversed(steps) if backwards else steps:
        new = _gated(step, state, parameters)
        state = new if lengths is None else xp.where((lengths > t)[:, None], new, state)
        states[t] = state
    return xp.stack(states, axis=1)


def bidirectional_gru(x: Array, parameters: Parameters, *, lengths: Array | None = None) -> Array:
    """Annotations of each position from both sides: x (B, S, X) → (B, S, 2D).

    Parameters: forwards, backwards.  Bahdanau et al. 2015 (arXiv:1409.0473), section 3.2.
    """
    xp = array_namespace(x)
    return xp.concat(
        [
            gru(x, parameters["forwards"], lengths=lengths),
            gru(x, parameters["backwards"], lengths=lengths, backwards=True),
        ],
        axis=-1,
    )


def additive_attention(
    queries: Array,
    keys: Array,
    values: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> Array:
    """v · tanh(W q + U k + b) scores.  queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E).

    Parameters: query_weight (A, Dq), key_weight (A, Dk), score_weight (A,), bias (A,), which may be left out.
    Bahdanau et al. 2015 (arXiv:1409.0473), section A.1.2.
    """
    score = additive(
        parameters["query_weight"], parameters["key_weight"], parameters["score_weight"], parameters.get("bias")
    )
    q, k, v = (z[..., None, :, :] for z in (queries, keys, values))
    return attention(q, k, v, score=score, mask=mask)[..., 0, :, :]


def additive_keys(keys: Array, parameters: Parameters) -> Array:
    """U k, what ``additive_attention`` compares: keys (…, S, Dk) → (…, S, A)."""
    return linear(keys, parameters["key_weight"])


def mix_additive(
    queries: Array,
    keys: Array,
    values: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> Array:
    """``additive_attention`` to ``additive_keys`` that are known already, as when decoding step by step."""
    asked = linear(queries, parameters["query_weight"], parameters.get("bias"))
    q, k, v = (z[..., None, :, :] for z in (asked, keys, values))
    return attention(q, k, v, score=Projected(parameters["score_weight"]), mask=mask)[..., 0, :, :]


def bilinear_attention(
    queries: Array,
    keys: Array,
    values: Array,
    parameters: Parameters,
    *,
    mask: Mask | Array | None = None,
    attention: Attention = overt_attention,
) -> Array:
    """q W kᵀ scores.  queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E).

    Parameters: product_weight (Dq, Dk).  Luong et al. 2015 (arXiv:1508.04025), "general".
    """
    q, k, v = (z[..., None, :, :] for z in (queries, keys, values))
    return attention(q, k, v, score=bilinear(parameters["product_weight"]), mask=mask)[..., 0, :, :]


def _project(x: Array, parameters: Parameters, name: str) -> Array:
    return linear(x, parameters[f"{name}_weight"], parameters.get(f"{name}_bias"))


def _embedded(tokens: Array, parameters: Parameters) -> Array:
    """Token and position, added: tokens (B, T) → (B, T, D)."""
    places = positional_embedding(parameters["position_embedding"], 0, tokens.shape[1])
    return embedding(parameters["token_embedding"], tokens) + places


def _norm(x: Array, parameters: Parameters) -> Array:
    return layer_norm(x, parameters["scale"], parameters["offset"])


def _head_width(parameters: Parameters, heads: int) -> int:
    rows = int(parameters["query_weight"].shape[0])
    if heads < 1 or rows % heads:
        raise ArgumentError(f"query_weight has {rows} rows, which do not split into {heads} heads")
    return rows // heads


def _split(x: Array, heads: int) -> Array:
    """(…, T, H·D) → (…, H, T, D)."""
    xp = array_namespace(x)
    x = xp.reshape(x, (*x.shape[:-1], heads, x.shape[-1] // heads))
    return xp.moveaxis(x, -2, -3)


def _joined(x: Array) -> Array:
    """(…, H, T, D) → (…, T, H·D)."""
    xp = array_namespace(x)
    x = xp.moveaxis(x, -3, -2)
    return xp.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
