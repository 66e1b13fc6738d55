"""Evoformer-style row attention with pair bias, as pure functions over a params dict."""
import functools

import jax
import jax.numpy as jnp
from jax import lax


def linear(params, x):
    y = jnp.einsum('...i,io->...o', x, params['w'])
    return y + params['b'] if 'b' in params else y


def layer_norm(params, x, eps=1e-5):
    mu = jnp.mean(x, -1, keepdims=True)
    var = jnp.var(x, -1, keepdims=True)
    return (x - mu) * lax.rsqrt(var + eps) * params['scale'] + params['offset']


def init_row_attention(key, c_m=24, c_z=12, num_head=4):
    assert c_m % num_head == 0
    ks = iter(jax.random.split(key, 6))
    d = c_m // num_head
    g = lambda *s, f: jax.random.normal(next(ks), s) * f ** -0.5
    return {
        'query_norm': {'scale': jnp.ones(c_m), 'offset': jnp.zeros(c_m)},
        'pair_norm': {'scale': jnp.ones(c_z), 'offset': jnp.zeros(c_z)},
        'pair_bias': g(c_z, num_head, f=c_z),
        'query_w': g(c_m, num_head, d, f=c_m),
        'key_w': g(c_m, num_head, d, f=c_m),
        'value_w': g(c_m, num_head, d, f=c_m),
        # the gate starts fully open
        'gating_w': jnp.zeros((c_m, num_head, d)),
        'gating_b': jnp.ones((num_head, d)),
        'output_w': g(num_head, d, c_m, f=c_m),
        'output_b': jnp.zeros(c_m),
    }


def row_attention_with_pair_bias(params, msa, msa_mask, pair):
    """Args:
      msa: [S, N, c_m]; every row (sequence) attends along its residues.
      msa_mask: [S, N], 1 for residues that are there, 0 for padding.
      pair: [N, N, c_z]; pair[i, j] biases query i, key j for all rows alike.
    Returns:
      [S, N, c_m] update, without the residual.
    """
    bias = 1e9 * (msa_mask.astype(jnp.float32) - 1.0)[:, None, None, :]
    x = layer_norm(params['query_norm'], msa)
    z = layer_norm(params['pair_norm'], pair)
    nonbatched_bias = jnp.einsum('qkc,ch->hqk', z, params['pair_bias'])

    d = params['query_w'].shape[-1]
    q = jnp.einsum('sqa,ahc->sqhc', x, params['query_w']) * d ** -0.5
    k = jnp.einsum('ska,ahc->skhc', x, params['key_w'])
    v = jnp.einsum('ska,ahc->skhc', x, params['value_w'])
    logits = jnp.einsum('sqhc,skhc->shqk', q, k).astype(jnp.float32) + bias
    logits = logits + nonbatched_bias[None]
    weights = jax.nn.softmax(logits).astype(v.dtype)
    avg = jnp.einsum('shqk,skhc->sqhc', weights, v)

    gate = jnp.einsum('sqa,ahc->sqhc', x, params['gating_w']) + params['gating_b']
    avg = avg * jax.nn.sigmoid(gate)
    return jnp.einsum('sqhc,hco->sqo', avg, params['output_w']) + params['output_b']


def chunked_rows(fn, msa, msa_mask, size):
    """memory saver: apply fn to `size` rows at a time"""
    s = msa.shape[0]
    assert s % size == 0, (s, size)
    m = msa.reshape(s // size, size, *msa.shape[1:])
    k = msa_mask.reshape(s // size, size, -1)
    out = lax.map(lambda a: fn(a[0], a[1]), (m, k))
    return out.reshape(msa.shape)


def init_transition(key, c=24, n=4):
    a, b = jax.random.split(key)
    return {'norm': {'scale': jnp.ones(c), 'offset': jnp.zeros(c)},
            'up': {'w': jax.random.normal(a, (c, c * n)) * c ** -0.5, 'b': jnp.zeros(c * n)},
            'down': {'w': jax.random.normal(b, (c * n, c)) * (c * n) ** -0.5, 'b': jnp.zeros(c)}}


def transition(params, x):
    return linear(params['down'], jax.nn.relu(linear(params['up'], layer_norm(params['norm'], x))))


@functools.partial(jax.jit, static_argnames='rows')
def evoformer_row_block(params, msa, msa_mask, pair, rows=None):
    fn = lambda m, k: row_attention_with_pair_bias(params['row'], m, k, pair)
    upd = fn(msa, msa_mask) if rows is None else chunked_rows(fn, msa, msa_mask, rows)
    msa = msa + upd
    return msa + transition(params['transition'], msa)


if __name__ == '__main__':
    k = jax.random.PRNGKey(0)
    p = {'row': init_row_attention(k), 'transition': init_transition(k)}
    m, z = jax.random.normal(k, (6, 10, 24)), jax.random.normal(k, (10, 10, 12))
    print(evoformer_row_block(p, m, jnp.ones((6, 10)), z, rows=2).shape)
