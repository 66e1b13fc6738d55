"""Causal self-attention in flax.linen with an autoregressive cache ("cache" collection), and its block."""
import jax
import jax.numpy as jnp
from jax import lax
import flax.linen as nn


class CachedSelfAttention(nn.Module):
    num_heads: int
    max_len: int = 32
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, decode: bool = False):
        B, T, D = x.shape
        hd = D // self.num_heads
        proj = lambda name: nn.DenseGeneral((self.num_heads, hd), axis=-1, dtype=self.dtype, name=name)
        q, k, v = proj("query")(x), proj("key")(x), proj("value")(x)        # B T H hd

        offset = 0
        if decode:
            ready = self.has_variable("cache", "k")
            ck = self.variable("cache", "k", jnp.zeros, (B, self.max_len, self.num_heads, hd), k.dtype)
            cv = self.variable("cache", "v", jnp.zeros, (B, self.max_len, self.num_heads, hd), v.dtype)
            idx = self.variable("cache", "i", lambda: jnp.array(0, jnp.int32))
            if ready:
                offset = idx.value
                ck.value = lax.dynamic_update_slice_in_dim(ck.value, k, offset, axis=1)
                cv.value = lax.dynamic_update_slice_in_dim(cv.value, v, offset, axis=1)
                idx.value = offset + T
                k, v = ck.value, cv.value

        S = k.shape[1]
        # rows of the buffer that are not written yet have larger positions, so this hides them too
        visible = jnp.arange(S)[None, :] <= offset + jnp.arange(T)[:, None]
        logits = jnp.einsum("bqhd,bkhd->bhqk", q / jnp.sqrt(hd).astype(self.dtype), k)
        logits = jnp.where(visible[None, None], logits, jnp.finfo(logits.dtype).min)
        w = nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bqhd", w, v)
        return nn.DenseGeneral(D, axis=(-2, -1), dtype=self.dtype, name="out")(y)


class DecoderBlock(nn.Module):
    num_heads: int
    mlp_ratio: int = 4
    max_len: int = 32

    @nn.compact
    def __call__(self, x, decode: bool = False):
        y = nn.LayerNorm()(x)
        x = x + CachedSelfAttention(self.num_heads, self.max_len, name="attn")(y, decode)
        y = nn.LayerNorm()(x)
        y = nn.gelu(nn.Dense(self.mlp_ratio * x.shape[-1])(y))
        return x + nn.Dense(x.shape[-1])(y)


class DecoderLM(nn.Module):
    vocab: int
    dim: int = 32
    depth: int = 2
    num_heads: int = 4
    max_len: int = 32

    @nn.compact
    def __call__(self, ids, decode: bool = False, positions=None):
        tok = nn.Embed(self.vocab, self.dim, name="tok")
        if positions is None:
            positions = jnp.arange(ids.shape[1])
        x = tok(ids) + nn.Embed(self.max_len, self.dim, name="pos")(positions)
        for _ in range(self.depth):
            x = DecoderBlock(self.num_heads, max_len=self.max_len)(x, decode)
        return tok.attend(nn.LayerNorm()(x))


def greedy(model, params, prompt, n_new):
    """prompt (B, P); feeds the prompt in one go, then single tokens."""
    B, P = prompt.shape
    cache = model.init(jax.random.key(0), prompt[:, :1], decode=True)["cache"]
    chunk, pos, out = prompt, jnp.arange(P), [prompt]
    for _ in range(n_new):
        logits, st = model.apply({"params": params, "cache": cache}, chunk, True, pos, mutable=["cache"])
        cache = st["cache"]
        chunk, pos = logits[:, -1:].argmax(-1), pos[-1:] + 1
        out.append(chunk)
    return jnp.concatenate(out, 1)
