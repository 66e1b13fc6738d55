"""Spider-venom peptide language model, ported from a GPT-NeoX checkpoint to Flax.

The checkpoint keeps one fused projection ``query_key_value`` whose OUTPUT columns are
grouped head by head: [head 0: q k v][head 1: q k v] ... each part head_dim wide.
Kernels here are the transposed torch weights, so the columns keep that order.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

RESIDUES = "-ACDEFGHIKLMNPQRSTVWY"


def tokenize(seq):
    return jnp.array([RESIDUES.index(c) for c in seq])


def port_linear(sd, name):
    """torch {'name.weight': [out, in], 'name.bias': [out]} -> Flax params."""
    return {"kernel": jnp.asarray(np.asarray(sd[name + ".weight"]).T), "bias": jnp.asarray(sd[name + ".bias"])}


def port_attention(sd, prefix):
    return {"params": {"query_key_value": port_linear(sd, prefix + "query_key_value"),
                       "dense": port_linear(sd, prefix + "dense")}}


def partial_rotary(x, n_rot, base=10000.0):
    """Rotates the first n_rot channels (half-split layout), x: [B, L, H, D]."""
    inv = base ** (-jnp.arange(0, n_rot, 2) / n_rot)
    ang = jnp.arange(x.shape[1])[:, None] * inv
    ang = jnp.concatenate([ang, ang], -1)[None, :, None, :]
    r, rest = x[..., :n_rot], x[..., n_rot:]
    a, b = jnp.split(r, 2, axis=-1)
    r = r * jnp.cos(ang) + jnp.concatenate([-b, a], -1) * jnp.sin(ang)
    return jnp.concatenate([r, rest], -1)


class NeoXAttention(nn.Module):
    """Causal self-attention, x: [B, L, width]."""

    width: int
    heads: int
    rotary_pct: float = 0.5

    @nn.compact
    def __call__(self, x):
        B, L, _ = x.shape
        d = self.width // self.heads
        fused = nn.Dense(3 * self.width, name="query_key_value")(x)
        fused = fused.reshape(B, L, 3, self.heads, d)
        q, k, v = fused[:, :, 0], fused[:, :, 1], fused[:, :, 2]
        n_rot = int(d * self.rotary_pct)
        q, k = partial_rotary(q, n_rot), partial_rotary(k, n_rot)
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(d)
        causal = jnp.tril(jnp.ones((L, L), bool))
        s = jnp.where(causal, s, jnp.finfo(s.dtype).min)
        p = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
        y = jnp.einsum("bhqk,bkhd->bqhd", p, v).reshape(B, L, self.width)
        return nn.Dense(self.width, name="dense")(y)


class ParallelLayer(nn.Module):
    """NeoX adds attention and MLP in parallel."""

    width: int = 32
    heads: int = 4

    @nn.compact
    def __call__(self, x):
        a = NeoXAttention(self.width, self.heads, name="attention")(nn.LayerNorm(name="ln1")(x))
        h = nn.Dense(4 * self.width, name="up")(nn.LayerNorm(name="ln2")(x))
        return x + a + nn.Dense(self.width, name="down")(nn.gelu(h))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    sd = {"a.query_key_value.weight": rng.normal(size=(96, 32)), "a.query_key_value.bias": np.zeros(96),
          "a.dense.weight": rng.normal(size=(32, 32)), "a.dense.bias": np.zeros(32)}
    print(NeoXAttention(32, 4).apply(port_attention(sd, "a."), jnp.ones((1, 6, 32))).shape)
