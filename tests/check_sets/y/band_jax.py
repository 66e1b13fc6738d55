"""Sliding-window attention for long documents, in the (B, N, T, H) layout.

window_size = how many positions a query sees in total, ITSELF INCLUDED
(window_size=1 is the identity on values).
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp

K_MASK = -2.3819763e38


@dataclasses.dataclass(frozen=True)
class LongformerishConfig:
    vocab: int = 70
    width: int = 32
    num_heads: int = 4
    layers: int = 2
    window_size: int = 4
    max_len: int = 64


def band(q_pos, k_pos, window_size):
    """bool (Tq, Tk), True = may attend"""
    causal = k_pos[None, :] <= q_pos[:, None]
    near = k_pos[None, :] >= q_pos[:, None] - window_size
    return jnp.logical_and(causal, near)


@functools.partial(jax.jit, static_argnames=('window_size',))
def windowed_attention(q, k, v, window_size, q_offset=0, key_valid=None):
    """q (B,N,T,H), k and v (B,N,S,H); query i sits at position q_offset + i.

    key_valid: optional (B, S) bool, True for real tokens.
    """
    T, S = q.shape[2], k.shape[2]
    logits = jnp.einsum('bnth,bnsh->bnts', q * (q.shape[-1] ** -0.5), k)
    keep = band(jnp.arange(T) + q_offset, jnp.arange(S), window_size)[None, None]
    if key_valid is not None:
        keep = keep & key_valid[:, None, None, :]
    logits = jnp.where(keep, logits, K_MASK)
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    return jnp.einsum('bnts,bnsh->bnth', probs.astype(v.dtype), v)


def init_params(key, cfg=LongformerishConfig()):
    def mat(k, i, o):
        return jax.random.normal(k, (i, o)) / jnp.sqrt(i)

    keys = jax.random.split(key, 2 + 4 * cfg.layers)
    p = {'tok': jax.random.normal(keys[0], (cfg.vocab, cfg.width)) * 0.1,
         'pos': jax.random.normal(keys[1], (cfg.max_len, cfg.width)) * 0.1, 'blocks': []}
    for i in range(cfg.layers):
        a, b, c, d = keys[2 + 4 * i: 6 + 4 * i]
        p['blocks'].append({'qkv': mat(a, cfg.width, 3 * cfg.width), 'o': mat(b, cfg.width, cfg.width),
                            'w1': mat(c, cfg.width, 2 * cfg.width), 'w2': mat(d, 2 * cfg.width, cfg.width)})
    return p


def rms(x):
    return x / jnp.sqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6)


def encode(params, ids, cfg=LongformerishConfig(), key_valid=None):
    B, T = ids.shape
    x = params['tok'][ids] + params['pos'][:T]
    for blk in params['blocks']:
        qkv = (rms(x) @ blk['qkv']).reshape(B, T, 3, cfg.num_heads, -1).transpose(2, 0, 3, 1, 4)
        y = windowed_attention(qkv[0], qkv[1], qkv[2], cfg.window_size, key_valid=key_valid)
        x = x + y.transpose(0, 2, 1, 3).reshape(B, T, -1) @ blk['o']
        x = x + jax.nn.relu(rms(x) @ blk['w1']) @ blk['w2']
    return rms(x)
