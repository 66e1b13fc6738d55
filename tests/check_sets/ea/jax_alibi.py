"""ALiBi (Press et al. 2022) in a few lines of JAX.

Instead of position embeddings every head gets a penalty growing linearly with the distance: the further
back a key lies, the smaller its logit.  Head h of n (n a power of two, h = 1 .. n)
has the slope 2 ** (-8 h / n).

attention(params, x): x (seq, dim) -> (seq, dim), causal. params: dict with 'wq', 'wk', 'wv' of shape
(dim, heads, head_dim) and 'wo' (heads, head_dim, dim). vmap it for batches.
"""
import jax
import jax.numpy as jnp


def slopes(n):
    return 2.0 ** (-8.0 * jnp.arange(1, n + 1) / n)


def alibi(n_heads, seq):
    i = jnp.arange(seq)[:, None]   # query
    j = jnp.arange(seq)[None, :]   # key
    return slopes(n_heads)[:, None, None] * (i - j)


def attention(params, x):
    seq = x.shape[0]
    q = jnp.einsum('td,dhk->htk', x, params['wq'])
    k = jnp.einsum('td,dhk->htk', x, params['wk'])
    v = jnp.einsum('td,dhk->htk', x, params['wv'])
    n_heads, _, head_dim = q.shape

    logits = q @ k.swapaxes(-1, -2) / jnp.sqrt(head_dim)
    logits = logits + alibi(n_heads, seq)
    logits = jnp.where(jnp.tri(seq, dtype=bool), logits, -jnp.inf)
    w = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum('hts,hsk,hkd->td', w, v, params['wo'])
