"""ESM-like masked protein language model, plain jax.numpy.

Batch first; tokens (B, L); <pad>=1, <cls>=0, <eos>=2, <mask>=32.
"""
import jax
import jax.numpy as jnp
import numpy as np

PAD = 1


def rotary_tables(L, d, base=10000.0):
    inv = 1.0 / base ** (jnp.arange(0, d, 2) / d)
    ang = jnp.arange(L)[:, None] * inv[None, :]
    ang = jnp.repeat(ang, 2, axis=-1)
    return jnp.cos(ang), jnp.sin(ang)


def rotate_half(x):
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-b, a], axis=-1)


def rotary(x, cos, sin):
    """x (B, L, H, D)"""
    return x * cos[None, :, None] + rotate_half(x) * sin[None, :, None]


def layer_norm(x, p):
    m = x.mean(-1, keepdims=True)
    v = jnp.mean((x - m) ** 2, -1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-5) * p['s'] + p['b']


def dense(x, p):
    return x @ p['w'] + p['b']


def self_attention(p, x, pad, heads):
    B, L, C = x.shape
    d = C // heads
    q = dense(x, p['q']).reshape(B, L, heads, d) * d ** -0.5
    k = dense(x, p['k']).reshape(B, L, heads, d)
    v = dense(x, p['v']).reshape(B, L, heads, d)
    cos, sin = rotary_tables(L, d)
    q, k = rotary(q, cos, sin), rotary(k, cos, sin)
    s = jnp.einsum('blhd,bmhd->bhlm', q, k)
    s = jnp.where(pad[:, None, None, :], -1e30, s)
    a = jax.nn.softmax(s, -1)
    o = jnp.einsum('bhlm,bmhd->blhd', a, v).reshape(B, L, C)
    return dense(o, p['o']), a


class ProteinLM:
    """Holds hyperparameters only. `init(key)` gives the parameters."""

    def __init__(self, vocab=33, dim=32, heads=4, layers=2, token_dropout=True):
        self.vocab, self.dim, self.heads, self.layers = vocab, dim, heads, layers
        self.token_dropout = token_dropout

    def init(self, key):
        def lin(k, i, o):
            a, b = jax.random.split(k)
            return {'w': jax.random.normal(a, (i, o)) / np.sqrt(i), 'b': 0.02 * jax.random.normal(b, (o,))}

        ln = lambda: {'s': jnp.ones(self.dim), 'b': jnp.zeros(self.dim)}
        ks = iter(jax.random.split(key, 6 * self.layers + 2))
        return {
            'emb': jax.random.normal(next(ks), (self.vocab, self.dim)),
            'layers': [{
                **{n: lin(next(ks), self.dim, self.dim) for n in 'qkvo'},
                'fc1': lin(next(ks), self.dim, 4 * self.dim), 'fc2': lin(next(ks), 4 * self.dim, self.dim),
                'ln1': ln(), 'ln2': ln()} for _ in range(self.layers)],
            'ln': ln(), 'out_b': jnp.zeros(self.vocab),
        }

    def apply(self, params, tokens, return_attn=False):
        pad = tokens == PAD
        x = params['emb'][tokens]
        if self.token_dropout:
            masked = (tokens == 32)
            x = jnp.where(masked[..., None], 0.0, x)
            n = (~pad).sum(-1)
            x = x * (1 - 0.12) / (1 - masked.sum(-1) / n)[:, None, None]
        x = x * (~pad)[..., None]
        attns = []
        for p in params['layers']:
            h, a = self_attention(p, layer_norm(x, p['ln1']), pad, self.heads)
            x = x + h
            x = x + dense(jax.nn.gelu(dense(layer_norm(x, p['ln2']), p['fc1'])), p['fc2'])
            attns.append(a)
        x = layer_norm(x, params['ln'])
        logits = x @ params['emb'].T + params['out_b']
        return (logits, jnp.stack(attns, 1)) if return_attn else logits

    __call__ = apply
