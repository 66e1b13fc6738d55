"""Sound of a beehive, streamed: decayed linear attention in JAX.

A hive microphone never stops, so the layer has to run with constant memory.  The output for
frame t is the weighted mean of the values up to and including t,

    y_t = sum_{j<=t} g^(t-j) phi(q_t).phi(k_j) v_j  /  sum_{j<=t} g^(t-j) phi(q_t).phi(k_j)

with phi(x) = elu(x) + 1 > 0 and one decay g in (0, 1) per head.  Only
S_t = sum g^(t-j) phi(k_j) v_j^T and z_t = sum g^(t-j) phi(k_j) are kept.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp


class HiveState(NamedTuple):
    s: jax.Array      # [B, H, d, d]
    z: jax.Array      # [B, H, d]


def blank_state(batch, heads, dim):
    return HiveState(jnp.zeros((batch, heads, dim, dim)), jnp.zeros((batch, heads, dim)))


def head_decays(heads, slow=0.995, fast=0.7):
    """Log-spaced memory spans, head 0 forgets fastest."""
    return 1.0 - jnp.geomspace(1 - fast, 1 - slow, heads)


def phi(x):
    return jax.nn.elu(x) + 1.0


def _tick(g, state, frame):
    q, k, v = frame                                        # each [B, H, d]
    g = g[None, :, None]
    s = g[..., None] * state.s + k[..., :, None] * v[..., None, :]
    z = state.z + k
    top = jnp.einsum("bhd,bhde->bhe", q, s)
    bottom = jnp.einsum("bhd,bhd->bh", q, z)
    return HiveState(s, z), top / bottom[..., None]


def hum_attention(q, k, v, decays, state=None):
    """q, k, v [B, T, H, d], decays [H] -> ([B, T, H, d], state).

    A stream may be cut anywhere: feed the pieces one after the other with the state that
    the piece before gave.
    """
    B, T, H, d = q.shape
    if state is None:
        state = blank_state(B, H, d)
    frames = tuple(jnp.moveaxis(t, 1, 0) for t in (phi(q), phi(k), v))
    state, y = jax.lax.scan(lambda c, f: _tick(decays, c, f), state, frames)
    return jnp.moveaxis(y, 0, 1), state


def init(key, bands=24, width=32, heads=4, moods=3):
    ks = jax.random.split(key, 5)
    lin = lambda k, i, o: jax.random.normal(k, (i, o)) / jnp.sqrt(i)
    return {
        "emb": lin(ks[0], bands, width),
        "qkv": lin(ks[1], width, 3 * width),
        "gate": lin(ks[2], width, width),
        "out": lin(ks[3], width, width),
        "mood": lin(ks[4], width, moods),          # calm, queenless, about to swarm
        "decays": head_decays(heads),
    }


@jax.jit
def listen(params, spectrum, state=None):
    """spectrum [B, T, bands] -> mood logits [B, T, moods], state"""
    x = jnp.log1p(spectrum) @ params["emb"]
    B, T, width = x.shape
    heads = params["decays"].shape[0]
    q, k, v = (t.reshape(B, T, heads, -1) for t in jnp.split(x @ params["qkv"], 3, -1))
    y, state = hum_attention(q, k, v, params["decays"], state)
    y = y.reshape(B, T, width) * jax.nn.silu(x @ params["gate"])
    return (x + y @ params["out"]) @ params["mood"], state


def alarm(logits, swarm=2, frames=5):
    """True where the last `frames` frames all point to swarming."""
    hit = (logits.argmax(-1) == swarm).astype(jnp.int32)
    run = jnp.stack([jnp.roll(hit, i, axis=1).at[:, :i].set(0) for i in range(frames)])
    return run.min(0) > 0


if __name__ == "__main__":
    p = init(jax.random.PRNGKey(0))
    sound = jax.random.gamma(jax.random.PRNGKey(1), 2.0, (2, 12, 24))
    whole, _ = listen(p, sound)
    a, st = listen(p, sound[:, :7])
    b, st = listen(p, sound[:, 7:], st)
    print(jnp.abs(whole - jnp.concatenate([a, b], 1)).max(), alarm(whole).sum())
