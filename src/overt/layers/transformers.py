"""Transformers and their layers, and how to go on from a prompt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from overt.attention import attention as overt_attention
from overt.errors import ArgumentError
from overt.grid import Array, ArrayT, host, plain
from overt.layers.activations import gelu, relu
from overt.layers.attentions import Attention, Pair, keys_and_values, mix_heads, multi_head_attention, padding_mask
from overt.layers.dense import embedding, feed_forward, keep, positional_embedding, project, unembedding
from overt.layers.namespace import array_namespace
from overt.layers.norms import normalize
from overt.layers.parameters import Parameters
from overt.masks import Mask, causal

_CAUSAL = causal()


def encoder_layer(
    x: ArrayT,
    parameters: Parameters,
    *,
    heads: int,
    mask: Mask | Array | None = None,
    activation: Callable[[Array], Array] = relu,
    drop: Callable[[Array], Array] = keep,
    attention: Attention = overt_attention,
) -> ArrayT:
    """Self-attention and feed-forward, each added to what came in and normalised.  Algorithm 8, lines 4–8.

    x (…, T, D) → (…, T, D).  Parameters: attention, attention_norm, feed_forward, feed_forward_norm.
    """
    attn_out = multi_head_attention(x, x, parameters["attention"], heads=heads, mask=mask, attention=attention)
    x = normalize(x + drop(attn_out), parameters["attention_norm"])
    ffn_out = feed_forward(x, parameters["feed_forward"], activation=activation, drop=drop)
    return normalize(x + drop(ffn_out), parameters["feed_forward_norm"])


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
        plain("past", past[0])
        plain("past", past[1])
        k, v = xp.concat([past[0], k], axis=-2), xp.concat([past[1], v], axis=-2)
    # The last query stands at the last key, so the same mask serves one new position and all of them.
    attn_out = mix_heads(x, k, v, parameters["attention"], heads=heads, mask=_CAUSAL, attention=attention)
    x = normalize(x + drop(attn_out), parameters["attention_norm"])
    cross_out = mix_heads(x, *context, parameters["cross"], heads=heads, mask=context_mask, attention=cross_attention)
    x = normalize(x + drop(cross_out), parameters["cross_norm"])
    ffn_out = feed_forward(x, parameters["feed_forward"], activation=activation, drop=drop)
    return normalize(x + drop(ffn_out), parameters["feed_forward_norm"]), (k, v)


def encoder_decoder_transformer(
    source: Array, target: Array, parameters: Parameters, *, heads: int, lengths: Array | None = None
) -> Array:
    """Scores of each next token of the target: source (B, S), target (B, T) → (B, T, V).  Algorithm 8.

    lengths: (B,) of the source.  Parameters: token_embedding, position_embedding, unembedding, and lists of layers,
    encoder and decoder.  Both sides share the embeddings, as the algorithm has it.
    """
    mask = None if lengths is None else padding_mask(lengths, source.shape[1])
    z = _embedded(source, parameters)
    for layer in parameters["encoder"]:
        z = encoder_layer(z, layer, heads=heads, mask=mask)
    x = _embedded(target, parameters)
    for layer in parameters["decoder"]:
        context = keys_and_values(z, layer["cross"], heads=heads)
        x = decoder_layer(x, context, layer, heads=heads, context_mask=mask)[0]
    return unembedding(x, parameters["unembedding"])


def encoder_transformer(tokens: Array, parameters: Parameters, *, heads: int, lengths: Array | None = None) -> Array:
    """Scores of the token at each position, from both sides: tokens (B, T) → (B, T, V).  Algorithm 9 (BERT).

    Parameters: token_embedding, position_embedding, layers, final_weight, final_bias, final_norm and unembedding.
    """
    mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
    x = _embedded(tokens, parameters)
    for layer in parameters["layers"]:
        x = encoder_layer(x, layer, heads=heads, mask=mask, activation=gelu)
    x = normalize(gelu(project(x, parameters, "final")), parameters["final_norm"])
    return unembedding(x, parameters["unembedding"])


def decoder_transformer(tokens: Array, parameters: Parameters, *, heads: int) -> Array:
    """Scores of each next token: tokens (B, T) → (B, T, V).  Algorithm 10 (GPT), which normalises before each part.

    Parameters: token_embedding, position_embedding, layers, final_norm and unembedding.
    """
    x = _embedded(tokens, parameters)
    for layer in parameters["layers"]:
        normed = normalize(x, layer["attention_norm"])
        x = x + multi_head_attention(normed, normed, layer["attention"], heads=heads, mask=_CAUSAL)
        normed = normalize(x, layer["feed_forward_norm"])
        x = x + feed_forward(normed, layer["feed_forward"], activation=gelu)
    return unembedding(normalize(x, parameters["final_norm"]), parameters["unembedding"])


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
    tokens = host("prompt", prompt)
    for _ in range(count):
        last = host("scores", scores(tokens))[:, -1, :].astype(np.float64)
        if rng is None:
            new = last.argmax(axis=-1)
        else:
            # The largest of scores with Gumbel noise is a draw from their softmax.
            new = (last / temperature + rng.gumbel(size=last.shape)).argmax(axis=-1)
        tokens = np.concatenate([tokens, new[:, None]], axis=1)
    return tokens[:, np.shape(prompt)[1] :]


def _embedded(tokens: Array, parameters: Parameters) -> Array:
    """Token and position, added: tokens (B, T) → (B, T, D)."""
    positions = positional_embedding(parameters["position_embedding"], 0, tokens.shape[1])
    return embedding(parameters["token_embedding"], tokens) + positions
