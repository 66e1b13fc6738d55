"""Functional decoder block, JAX. Local causal attention with linear position biases.

Head number n = 1..H gets the slope 2 ** (-8 n / H) (H must be a power of two), and every
token may look at the `window` most recent tokens, itself included.
"""
from functools import partial

import jax
import jax.numpy as jnp


def dense_init(key, n_in, n_out):
    return jax.random.normal(key, (n_in, n_out)) * (n_in ** -0.5)


def init_block(key, d_model, d_ff):
    k = jax.random.split(key, 6)
    return {
        'attn': {
            'wq': dense_init(k[0], d_model, d_model),
            'wk': dense_init(k[1], d_model, d_model),
            'wv': dense_init(k[2], d_model, d_model),
            'wo': dense_init(k[3], d_model, d_model),
        },
        'mlp': {'w1': dense_init(k[4], d_model, d_ff), 'w2': dense_init(k[5], d_ff, d_model)},
        'ln1': jnp.ones((d_model,)),
        'ln2': jnp.ones((d_model,)),
    }


def rms(x, g, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(x ** 2, -1, keepdims=True) + eps) * g


def head_slopes(n_heads):
    assert n_heads & (n_heads - 1) == 0, 'power of two expected'
    ratio = 2.0 ** (-8.0 / n_heads)
    return ratio ** jnp.arange(n_heads, dtype=jnp.float32)


def position_terms(q_pos, k_pos, n_heads, window):
    """additive term [H, Tq, Tk]"""
    back = q_pos[:, None] - k_pos[None, :]
    visible = (back >= 0) & (back <= window)
    bias = -head_slopes(n_heads)[:, None, None] * back
    return jnp.where(visible, bias, -jnp.inf)


def local_attention(p, x, n_heads, window, memory=None):
    """
    x       [B, T, D]
    memory  optional (k, v) of earlier tokens, each [B, M, H, hd]
    returns output [B, T, D] and the (k, v) to hand to the next call
    """
    B, T, D = x.shape
    hd = D // n_heads
    q = (x @ p['wq']).reshape(B, T, n_heads, hd)
    k = (x @ p['wk']).reshape(B, T, n_heads, hd)
    v = (x @ p['wv']).reshape(B, T, n_heads, hd)
    M = 0
    if memory is not None:
        M = memory[0].shape[1]
        k = jnp.concatenate([memory[0], k], axis=1)
        v = jnp.concatenate([memory[1], v], axis=1)
    terms = position_terms(M + jnp.arange(T), jnp.arange(M + T), n_heads, window)
    s = jnp.einsum('bqhd,bkhd->bhqk', q, k, preferred_element_type=jnp.float32)
    w = jax.nn.softmax(s * hd ** -0.5 + terms, axis=-1)
    y = jnp.einsum('bhqk,bkhd->bqhd', w.astype(v.dtype), v).reshape(B, T, D)
    return y @ p['wo'], (k, v)


@partial(jax.jit, static_argnames=('n_heads', 'window'))
def block(params, x, n_heads=4, window=16):
    y, _ = local_attention(params['attn'], rms(x, params['ln1']), n_heads, window)
    x = x + y
    h = jax.nn.gelu(rms(x, params['ln2']) @ params['mlp']['w1'])
    return x + h @ params['mlp']['w2']


if __name__ == '__main__':
    p = init_block(jax.random.PRNGKey(0), 32, 64)
    x = jax.random.normal(jax.random.PRNGKey(1), (2, 20, 32))
    print(block(p, x, n_heads=4, window=6).shape)
