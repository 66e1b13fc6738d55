"""Functional JAX port of one Gemma-2 style decoder layer.

Weights stay in a flat dict with the names of the PyTorch checkpoint, so that a
converted state dict can be used as it is. What Gemma 2 adds to a plain decoder:
the attention logits are soft-capped (cap * tanh(logits / cap)), queries are scaled
by query_pre_attn_scalar ** -0.5, every sub-layer has a norm before and after, and
RMSNorm multiplies by (1 + weight). Attention is causal; `attention_mask` [B, T] is
1 for real tokens. Rotary embeddings are applied by the caller through `rotary`.
"""
from typing import Callable, NamedTuple, Optional

import jax
import jax.numpy as jnp


class LayerConfig(NamedTuple):
    hidden_size: int = 32
    intermediate_size: int = 64
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 8.0
    attn_logit_softcapping: float = 4.0
    rms_norm_eps: float = 1e-6


def rms_norm(x, weight, eps):
    y = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    return y * (1.0 + weight)


def eager_attention(query, key, value, mask, *, scaling, softcap):
    groups = query.shape[1] // key.shape[1]
    key = jnp.repeat(key, groups, axis=1)
    value = jnp.repeat(value, groups, axis=1)
    weights = jnp.einsum("bhqd,bhkd->bhqk", query, key) * scaling
    weights = jnp.where(mask, weights, jnp.finfo(weights.dtype).min)
    if softcap is not None:
        weights = softcap * jnp.tanh(weights / softcap)
    weights = jax.nn.softmax(weights.astype(jnp.float32), axis=-1).astype(query.dtype)
    return jnp.einsum("bhqk,bhkd->bqhd", weights, value)


def decoder_layer(w: dict, x: jax.Array, cfg: LayerConfig,
                  attention_mask: Optional[jax.Array] = None,
                  rotary: Optional[Callable[[jax.Array], jax.Array]] = None) -> jax.Array:
    B, T, _ = x.shape
    h = rms_norm(x, w["input_layernorm.weight"], cfg.rms_norm_eps)

    def heads(name, n):
        y = h @ w[f"self_attn.{name}.weight"].T
        return y.reshape(B, T, n, cfg.head_dim).swapaxes(1, 2)

    q, k, v = heads("q_proj", cfg.num_heads), heads("k_proj", cfg.num_kv_heads), heads("v_proj", cfg.num_kv_heads)
    if rotary is not None:
        q, k = rotary(q), rotary(k)
    mask = jnp.tril(jnp.ones((T, T), bool))[None, None]
    if attention_mask is not None:
        mask = mask & attention_mask.astype(bool)[:, None, None, :]
    a = eager_attention(q, k, v, mask, scaling=cfg.query_pre_attn_scalar ** -0.5,
                        softcap=cfg.attn_logit_softcapping)
    a = a.reshape(B, T, -1) @ w["self_attn.o_proj.weight"].T
    x = x + rms_norm(a, w["post_attention_layernorm.weight"], cfg.rms_norm_eps)

    h = rms_norm(x, w["pre_feedforward_layernorm.weight"], cfg.rms_norm_eps)
    g = jax.nn.gelu(h @ w["mlp.gate_proj.weight"].T, approximate=True)
    m = (g * (h @ w["mlp.up_proj.weight"].T)) @ w["mlp.down_proj.weight"].T
    return x + rms_norm(m, w["post_feedforward_layernorm.weight"], cfg.rms_norm_eps)


def init_weights(key, cfg: LayerConfig) -> dict:
    qd, kd = cfg.num_heads * cfg.head_dim, cfg.num_kv_heads * cfg.head_dim
    D, F = cfg.hidden_size, cfg.intermediate_size
    shapes = {"self_attn.q_proj": (qd, D), "self_attn.k_proj": (kd, D), "self_attn.v_proj": (kd, D),
              "self_attn.o_proj": (D, qd), "mlp.gate_proj": (F, D), "mlp.up_proj": (F, D),
              "mlp.down_proj": (D, F)}
    w = {f"{n}.weight": jax.random.normal(k, s) * s[1] ** -0.5
         for k, (n, s) in zip(jax.random.split(key, len(shapes)), shapes.items())}
    for n in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
        w[f"{n}_layernorm.weight"] = jnp.zeros(D)
    return w
