"""Riichi discards: policy over the 34 tile kinds from the table's discard history.

Functional JAX. Weights are a NamedTuple; the training loop lives elsewhere.
Scores are soft-capped (cap * tanh(s / cap)) as in Gemma 2, then the history is
made causal, then padding of short hands is removed.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp

TILES = 34
SEATS = 4
RED_FIVES = (4, 13, 22)


class Net(NamedTuple):
    tile: jnp.ndarray       # [TILES, D]
    seat: jnp.ndarray       # [SEATS, D]
    qkv: jnp.ndarray        # [layers, D, 3, H, d]
    out: jnp.ndarray        # [layers, H, d, D]


def new_net(key, dim=32, heads=4, layers=2):
    k1, k2, k3, k4 = jax.random.split(key, 4)
    d = dim // heads
    return Net(jax.random.normal(k1, (TILES, dim)),
               jax.random.normal(k2, (SEATS, dim)),
               jax.random.normal(k3, (layers, dim, 3, heads, d)) / dim ** 0.5,
               jax.random.normal(k4, (layers, heads, d, dim)) / dim ** 0.5)


def soft_cap(s, cap):
    return s if cap is None else cap * jnp.tanh(s / cap)


def discard_attention(x, w_qkv, w_out, turns, cap=20.0):
    """x [B, T, D]; w_qkv [D, 3, H, d]; w_out [H, d, D]; turns [B] = discards so far.

    Position t looks at positions <= t that are below turns[b].
    cap=None switches the soft cap off.
    """
    q, k, v = jnp.moveaxis(jnp.einsum("btD,Dnhd->btnhd", x, w_qkv), 2, 0)
    s = jnp.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
    s = soft_cap(s.astype(jnp.float32), cap)
    t = jnp.arange(x.shape[1])
    keep = (t[None, :] <= t[:, None])[None, None] & (t[None, :] < turns[:, None])[:, None, None, :]
    s = jnp.where(keep, s, -jnp.inf)
    # an empty table (turns == 0) has nothing to look at
    top = jnp.max(s, axis=-1, keepdims=True)
    e = jnp.where(keep, jnp.exp(s - jnp.where(jnp.isfinite(top), top, 0.0)), 0.0)
    z = e.sum(-1, keepdims=True)
    p = (e / jnp.where(z == 0.0, 1.0, z)).astype(v.dtype)
    return jnp.einsum("bhij,bjhd,hdD->biD", p, v, w_out)


def norm(x):
    m = x.mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)


def policy(net, tiles, seats, turns, hand):
    """log-probabilities [B, TILES]; hand [B, TILES] counts, one cannot discard what one lacks"""
    x = net.tile[tiles] + net.seat[seats]
    for wi, wo in zip(net.qkv, net.out):
        x = x + discard_attention(norm(x), wi, wo, turns)
    last = jnp.take_along_axis(x, jnp.maximum(turns - 1, 0)[:, None, None], axis=1)[:, 0]
    logits = norm(last) @ net.tile.T
    return jax.nn.log_softmax(jnp.where(hand > 0, logits, -1e9), axis=-1)


def shanten_hint(hand):
    """very rough: pairs and triplets only"""
    return 8 - 2 * (hand >= 3).sum(-1) - (hand == 2).sum(-1)


if __name__ == "__main__":
    n = new_net(jax.random.PRNGKey(0))
    tiles = jnp.arange(12).reshape(2, 6)
    print(policy(n, tiles, tiles % SEATS, jnp.array([6, 3]), jnp.ones((2, TILES))).shape)
