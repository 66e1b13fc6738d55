"""Flax port of the Tolk translation model: attention with a decoding cache (`Tähelepanu`)."""
import dataclasses
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax


@dataclasses.dataclass(frozen=True)
class TolkConfig:
    vocab_size: int = 300
    d_model: int = 48
    attention_heads: int = 4
    ffn_dim: int = 96
    dropout: float = 0.0
    max_decode_len: int = 32
    dtype: Any = jnp.float32


class FlaxTolkAttention(nn.Module):
    """Self- or cross-attention. `attention_mask` [B, Lk] (1 = token, 0 = padding)."""

    config: TolkConfig
    causal: bool = False

    def setup(self):
        c = self.config
        dense = lambda: nn.Dense(c.d_model, dtype=c.dtype,
                                 kernel_init=nn.initializers.normal(0.02))
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = dense(), dense(), dense(), dense()
        self.dropout_layer = nn.Dropout(rate=c.dropout)

    def _heads(self, t):
        return t.reshape(t.shape[:2] + (self.config.attention_heads, -1))

    @nn.compact
    def _into_cache(self, key, value):
        """Writes the new keys at `cache_index`; gives back the full buffers and the old index."""
        ready = self.has_variable("cache", "cached_key")
        b, _, h, d = key.shape
        shape = (b, self.config.max_decode_len, h, d)
        ck = self.variable("cache", "cached_key", jnp.zeros, shape, key.dtype)
        cv = self.variable("cache", "cached_value", jnp.zeros, shape, value.dtype)
        ci = self.variable("cache", "cache_index", lambda: jnp.array(0, jnp.int32))
        start = ci.value
        if ready:
            ck.value = lax.dynamic_update_slice(ck.value, key, (0, start, 0, 0))
            cv.value = lax.dynamic_update_slice(cv.value, value, (0, start, 0, 0))
            ci.value = start + key.shape[1]
        return ck.value, cv.value, start

    def __call__(self, hidden, key_value_states: Optional[jnp.ndarray] = None,
                 attention_mask: Optional[jnp.ndarray] = None, use_cache: bool = False,
                 deterministic: bool = True):
        src = hidden if key_value_states is None else key_value_states
        q = self._heads(self.q_proj(hidden))
        k = self._heads(self.k_proj(src))
        v = self._heads(self.v_proj(src))
        n_q = q.shape[1]

        offset = 0
        if use_cache and self.causal:
            k, v, offset = self._into_cache(k, v)
        allowed = jnp.ones((1, 1, n_q, k.shape[1]), bool)
        if self.causal:
            rows = offset + jnp.arange(n_q)[:, None]
            allowed = (jnp.arange(k.shape[1])[None, :] <= rows)[None, None]
        if attention_mask is not None:
            allowed = allowed & (attention_mask[:, None, None, :] > 0)

        bias = lax.select(jnp.broadcast_to(allowed, (q.shape[0],) + allowed.shape[1:]),
                          jnp.zeros((q.shape[0],) + allowed.shape[1:], self.config.dtype),
                          jnp.full((q.shape[0],) + allowed.shape[1:],
                                   jnp.finfo(self.config.dtype).min, self.config.dtype))
        rng = None
        if not deterministic and self.config.dropout > 0.0:
            rng = self.make_rng("dropout")
        weights = nn.dot_product_attention_weights(
            q, k, bias=bias, dropout_rng=rng, dropout_rate=self.config.dropout,
            deterministic=deterministic, dtype=self.config.dtype)
        out = jnp.einsum("...hqk,...khd->...qhd", weights, v)
        return self.out_proj(out.reshape(out.shape[:2] + (-1,)))


class FlaxTolkDecoderLayer(nn.Module):
    config: TolkConfig

    @nn.compact
    def __call__(self, x, memory, memory_mask=None, use_cache=False, deterministic=True):
        c = self.config
        y = FlaxTolkAttention(c, causal=True, name="self_attn")(
            x, use_cache=use_cache, deterministic=deterministic)
        x = nn.LayerNorm(name="ln_self")(x + y)
        y = FlaxTolkAttention(c, name="encoder_attn")(
            x, memory, memory_mask, deterministic=deterministic)
        x = nn.LayerNorm(name="ln_cross")(x + y)
        y = nn.Dense(c.d_model, name="fc2")(nn.swish(nn.Dense(c.ffn_dim, name="fc1")(x)))
        return nn.LayerNorm(name="ln_ffn")(x + y)


def start_cache(layer, params_rng, batch, memory):
    """Empty cache of the right shapes; parameters are thrown away."""
    x = jnp.zeros((batch, 1, layer.config.d_model))
    shapes = jax.eval_shape(lambda: layer.init(params_rng, x, memory, use_cache=True))
    return jax.tree_util.tree_map(lambda s: jnp.zeros(s.shape, s.dtype), shapes["cache"])
