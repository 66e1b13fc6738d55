"""Triangle attention over the pair representation, functional style.

All functions are ``f(params, act, mask, cfg)``. ``act`` is [N, N, C] for one protein (vmap for
batches), ``mask`` [N, N] with 1 for pairs of two resolved residues. Parameter trees follow the
layout of the released checkpoints: query_w [C, H, D], output_w [H, D, C], ...
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp


class PairConfig(NamedTuple):
    channels: int = 32
    heads: int = 4
    orientation: str = "per_row"      # or "per_column"
    gating: bool = True
    transition_factor: int = 2


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = jnp.square(x - mu).mean(-1, keepdims=True)
    return (x - mu) * jax.lax.rsqrt(var + eps) * p["scale"] + p["offset"]


def gated_attention(p, q_data, m_data, bias, nonbatched_bias, gating=True):
    """q_data, m_data [R, Q, C] / [R, K, C]; bias broadcastable to [R, H, Q, K];
    nonbatched_bias [H, Q, K] is the same for every row r."""
    d = p["query_w"].shape[-1]
    q = jnp.einsum("rqa,ahc->rqhc", q_data, p["query_w"]) * d ** -0.5
    k = jnp.einsum("rka,ahc->rkhc", m_data, p["key_w"])
    v = jnp.einsum("rka,ahc->rkhc", m_data, p["value_w"])
    logits = jnp.einsum("rqhc,rkhc->rhqk", q, k) + bias + nonbatched_bias[None]
    weights = jax.nn.softmax(logits.astype(jnp.float32), axis=-1).astype(v.dtype)
    out = jnp.einsum("rhqk,rkhc->rqhc", weights, v)
    if gating:
        gate = jax.nn.sigmoid(jnp.einsum("rqa,ahc->rqhc", q_data, p["gating_w"]) + p["gating_b"])
        out = out * gate
    return jnp.einsum("rqhc,hco->rqo", out, p["output_w"]) + p["output_b"]


def triangle_attention(params, act, mask, cfg: PairConfig):
    if cfg.orientation == "per_column":
        act = jnp.swapaxes(act, 0, 1)
        mask = jnp.swapaxes(mask, 0, 1)
    act = layer_norm(params["norm"], act)
    bias = (1e9 * (mask - 1.0))[:, None, None, :]
    pair_bias = jnp.einsum("qkc,ch->hqk", act, params["feat_2d_weights"])
    out = gated_attention(params["attention"], act, act, bias, pair_bias, cfg.gating)
    if cfg.orientation == "per_column":
        out = jnp.swapaxes(out, 0, 1)
    return out


def transition(params, act):
    h = layer_norm(params["norm"], act)
    h = jax.nn.relu(h @ params["w1"] + params["b1"])
    return h @ params["w2"] + params["b2"]


def pair_stack(stack, act, mask, cfg: PairConfig):
    start = functools.partial(triangle_attention, cfg=cfg._replace(orientation="per_row"))
    end = functools.partial(triangle_attention, cfg=cfg._replace(orientation="per_column"))
    for p in stack:
        act = act + start(p["start"], act, mask)
        act = act + end(p["end"], act, mask)
        act = act + transition(p["transition"], act)
    return act


def init_norm(c):
    return {"scale": jnp.ones(c), "offset": jnp.zeros(c)}


def init_triangle(key, cfg: PairConfig):
    c, h = cfg.channels, cfg.heads
    d = c // h
    ks = jax.random.split(key, 6)
    w = lambda k, *s: jax.random.normal(k, s) * c ** -0.5
    return {"norm": init_norm(c), "feat_2d_weights": w(ks[0], c, h),
            "attention": {"query_w": w(ks[1], c, h, d), "key_w": w(ks[2], c, h, d), "value_w": w(ks[3], c, h, d),
                          "gating_w": w(ks[4], c, h, d), "gating_b": jnp.ones((h, d)),
                          "output_w": w(ks[5], h, d, c), "output_b": jnp.zeros(c)}}


def init_stack(key, cfg: PairConfig, depth=2):
    c, f = cfg.channels, cfg.transition_factor
    out = []
    for k in jax.random.split(key, depth):
        a, b, d, e = jax.random.split(k, 4)
        out.append({"start": init_triangle(a, cfg), "end": init_triangle(b, cfg),
                    "transition": {"norm": init_norm(c), "w1": jax.random.normal(d, (c, f * c)) * c ** -0.5,
                                   "b1": jnp.zeros(f * c), "w2": jax.random.normal(e, (f * c, c)) * 0.1,
                                   "b2": jnp.zeros(c)}})
    return out
