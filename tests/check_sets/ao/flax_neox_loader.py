"""Load a NeoX-type checkpoint (music captioning model) in Flax and run it.

In the checkpoint `attention.query_key_value` has output columns ordered by head:
for each head first its q, then its k, then its v, i.e. (heads, 3, head_dim).
The tensors are only transposed by `convert`, the order of columns is left alone.
"""
from typing import Any
import jax
import jax.numpy as jnp
import flax.linen as nn
import numpy as np


class PackedAttention(nn.Module):
    heads: int
    width: int

    def setup(self):
        self.query_key_value = nn.Dense(3 * self.width)
        self.dense = nn.Dense(self.width)

    def __call__(self, x):
        B, T, _ = x.shape
        hd = self.width // self.heads
        qkv = self.query_key_value(x)
        qkv = qkv.reshape(B, T, 3, self.heads, hd)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        a = jnp.einsum("bthd,bshd->bhts", q, k) / hd ** 0.5
        a = jnp.where(jnp.tril(jnp.ones((T, T), bool)), a, -1e10)
        a = nn.softmax(a.astype(jnp.float32)).astype(x.dtype)
        y = jnp.einsum("bhts,bshd->bthd", a, v).reshape(B, T, self.width)
        return self.dense(y)


class Layer(nn.Module):
    heads: int
    width: int

    def setup(self):
        self.input_layernorm = nn.LayerNorm(epsilon=1e-5)
        self.post_attention_layernorm = nn.LayerNorm(epsilon=1e-5)
        self.attention = PackedAttention(self.heads, self.width)
        self.up = nn.Dense(4 * self.width)
        self.down = nn.Dense(self.width)

    def __call__(self, x):
        # parallel residual
        a = self.attention(self.input_layernorm(x))
        m = self.down(nn.gelu(self.up(self.post_attention_layernorm(x))))
        return x + a + m


class Captioner(nn.Module):
    vocab: int
    heads: int
    width: int
    depth: int
    audio_dim: int = 128

    @nn.compact
    def __call__(self, audio, tokens):
        """audio frames [B, F, audio_dim] come before the text tokens [B, T]"""
        prefix = nn.Dense(self.width, name="audio_in")(audio)
        emb = nn.Embed(self.vocab, self.width, name="embed_in")
        pos = self.param("pos", nn.initializers.normal(0.01), (1024, self.width))
        x = jnp.concatenate([prefix, emb(tokens)], axis=1)
        x = x + pos[: x.shape[1]]
        for i in range(self.depth):
            x = Layer(self.heads, self.width, name=f"layer_{i}")(x)
        x = nn.LayerNorm(name="final")(x)[:, prefix.shape[1]:]
        return nn.Dense(self.vocab, use_bias=False, name="embed_out")(x)


def convert(state: dict) -> Any:
    """flat dict of numpy arrays with dotted names -> nested params"""
    tree = {}
    for name, w in state.items():
        w = np.asarray(w)
        *path, leaf = name.split(".")
        if leaf == "weight":
            leaf = "scale" if "layernorm" in path[-1] else "kernel"
            if leaf == "kernel":
                w = w.T
        node = tree
        for p in path:
            node = node.setdefault(p, {})
        node[leaf] = jnp.asarray(w)
    return tree
