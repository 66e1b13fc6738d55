"""Flax による ViT エンコーダブロック（pre-norm、LayerScale つき）。

ViTBlock(heads, mlp_ratio, layer_scale)(x, train=False)
    x    (batch, tokens, C)
    ->   (batch, tokens, C)
各ヘッドの幅は d = C // heads。スコアは q.k / sqrt(d)、softmax は読まれる
トークン（キー）について取る。ヘッドの出力はトークンごとに
[head 0 の d チャネル, head 1 の d チャネル, ...] の順に連結してから
射影 proj に通す。
    x = x + ls1 * proj(heads);  x = x + ls2 * mlp(LN(x))
"""
import flax.linen as nn
import jax
import jax.numpy as jnp


class SelfAttention(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x):
        B, L, C = x.shape
        d = C // self.heads
        qkv = nn.Dense(3 * C, name="qkv")(x).reshape(B, L, 3, self.heads, d)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]

        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (C ** -0.5)
        w = jax.nn.softmax(s, axis=-1)
        y = jnp.einsum("bhqk,bkhd->bhqd", w, v)
        y = y.reshape(B, L, C)          # ヘッドを連結
        return nn.Dense(C, name="proj")(y)


class LayerScale(nn.Module):
    init: float = 1e-1

    @nn.compact
    def __call__(self, x):
        return x * self.param("gamma", nn.initializers.constant(self.init), (x.shape[-1],))


class ViTBlock(nn.Module):
    heads: int = 3
    mlp_ratio: int = 4
    layer_scale: float = 1e-1
    drop: float = 0.0

    @nn.compact
    def __call__(self, x, train=False):
        C = x.shape[-1]
        y = SelfAttention(self.heads, name="attn")(nn.LayerNorm(name="norm1")(x))
        y = LayerScale(self.layer_scale, name="ls1")(y)
        x = x + nn.Dropout(self.drop, deterministic=not train)(y)

        y = nn.Dense(self.mlp_ratio * C, name="fc1")(nn.LayerNorm(name="norm2")(x))
        y = nn.Dense(C, name="fc2")(nn.gelu(y))
        y = LayerScale(self.layer_scale, name="ls2")(y)
        return x + nn.Dropout(self.drop, deterministic=not train)(y)
