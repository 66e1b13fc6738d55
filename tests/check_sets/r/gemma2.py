from typing import NamedTuple

import jax
import jax.numpy as jnp


class AttnConfig(NamedTuple):
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 6
    query_pre_attn_scalar: float = 6.0
    attn_logit_softcapping: float = 5.0


def gemma2_attention(w, x, segment_mask, cfg=AttnConfig()):
    """Soft-capped attention: logits are brought into (-cap, cap) by cap * tanh(logits / cap).

    w: {"q": [D, N, H], "kv": [2, D, K, H], "o": [N, H, D]};  x: [B, T, D]
    segment_mask: [B, T, T] bool, True where query t may attend to key s (causality included).  What is not allowed
    gets no weight.
    """
    q = jnp.einsum("btd,dnh->btnh", x, w["q"]) * cfg.query_pre_attn_scalar**-0.5
    k, v = jnp.einsum("bsd,cdkh->cbskh", x, w["kv"])
    B, T, N, H = q.shape
    q = q.reshape(B, T, cfg.num_kv_heads, N // cfg.num_kv_heads, H)
    logits = jnp.einsum("btkgh,bskh->bkgts", q, k)
    logits = jnp.where(segment_mask[:, None, None], logits, -2.3819763e38)
    if cfg.attn_logit_softcapping:
        logits = cfg.attn_logit_softcapping * jnp.tanh(logits / cfg.attn_logit_softcapping)
    probs = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("bkgts,bskh->btkgh", probs, v).reshape(B, T, N, H)
    return jnp.einsum("btnh,nhd->btd", out, w["o"])
