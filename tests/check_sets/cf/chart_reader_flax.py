"""Chart question answering: a joint encoder over image patches and words (Flax).

One sequence holds the patches of the chart followed by the words of the question.
Questions are padded on the right; ``word_valid`` is True for real words.  Padding
must not be visible to anyone; the attention is otherwise unrestricted.
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class JointAttention(nn.Module):
    num_heads: int

    @nn.compact
    def __call__(self, x, valid):
        # x: (batch, length, features); valid: (batch, length)
        b, n, c = x.shape
        d = c // self.num_heads
        qkv = nn.Dense(3 * c, name="qkv")(x).reshape(b, n, 3, self.num_heads, d)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        logits = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(d)
        mask = valid[:, None, :, None]
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
        weights = nn.softmax(logits, axis=-1)
        y = jnp.einsum("bhqk,bhkd->bqhd", weights, v).reshape(b, n, c)
        return nn.Dense(c, name="out")(y)


class JointLayer(nn.Module):
    num_heads: int
    mlp_dim: int

    @nn.compact
    def __call__(self, x, valid):
        x = x + JointAttention(self.num_heads, name="attn")(nn.LayerNorm()(x), valid)
        h = nn.Dense(self.mlp_dim)(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class ChartReader(nn.Module):
    vocab: int = 64
    dim: int = 32
    num_heads: int = 4
    depth: int = 2
    max_words: int = 32

    @nn.compact
    def __call__(self, patches, words, word_valid):
        """patches (B, P, F), words (B, W) int, word_valid (B, W) -> (B, P + W, dim)"""
        b, p, _ = patches.shape
        img = nn.Dense(self.dim, name="patch_embed")(patches)
        img = img + self.param("patch_pos", nn.initializers.normal(0.02), (p, self.dim))
        txt = nn.Embed(self.vocab, self.dim, name="word_embed")(words)
        pos = self.param("word_pos", nn.initializers.normal(0.02), (self.max_words, self.dim))
        txt = txt + pos[: words.shape[1]]
        x = jnp.concatenate([img, txt], axis=1)
        valid = jnp.concatenate([jnp.ones((b, p), dtype=bool), word_valid.astype(bool)], axis=1)
        for i in range(self.depth):
            x = JointLayer(self.num_heads, 2 * self.dim, name=f"layer_{i}")(x, valid)
        return nn.LayerNorm(name="final_norm")(x)
