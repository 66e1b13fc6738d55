"""Sliding-window self-attention in chunks (Longformer, without global tokens), JAX.

Every token sees the tokens at most `w` away on either side (2w + 1 with itself); memory is
O(L * w): the sequence is cut in chunks of w, and a chunk looks at itself and both neighbours.
Params are a plain dict.
"""
import functools
import jax
import jax.numpy as jnp


def init(key, dim, heads):
    ks = jax.random.split(key, 4)
    mk = lambda k: jax.random.normal(k, (dim, dim)) / jnp.sqrt(dim)
    return {"q": mk(ks[0]), "k": mk(ks[1]), "v": mk(ks[2]), "o": mk(ks[3])}


def _split(x, heads):
    b, l, c = x.shape
    return x.reshape(b, l, heads, c // heads)


def _with_neighbours(t, fill):
    """(b, n, w, ...) -> (b, n, 3w, ...): previous, own and next chunk"""
    edge = jnp.full_like(t[:, :1], fill)
    prev = jnp.concatenate([edge, t[:, :-1]], axis=1)
    nxt = jnp.concatenate([t[:, 1:], edge], axis=1)
    return jnp.concatenate([prev, t, nxt], axis=2)


@functools.partial(jax.jit, static_argnames=("heads", "w"))
def sliding_attention(params, x, valid, *, heads, w):
    """x (b, L, dim); valid bool (b, L), True for real tokens.  Returns (b, L, dim);
    rows of padding tokens are zero."""
    b, length, dim = x.shape
    pad = (-length) % w
    xp = jnp.pad(x, ((0, 0), (0, pad), (0, 0)))
    ok = jnp.pad(valid, ((0, 0), (0, pad)))
    n = xp.shape[1] // w

    q, k, v = (_split(xp @ params[c], heads).reshape(b, n, w, heads, -1) for c in "qkv")
    k, v = _with_neighbours(k, 0.0), _with_neighbours(v, 0.0)
    seen = _with_neighbours(ok.reshape(b, n, w), False)               # b n 3w

    s = jnp.einsum("bniha,bnjha->bnhij", q, k) * q.shape[-1] ** -0.5
    i = jnp.arange(w)[:, None] + w                                    # position inside the 3w strip
    j = jnp.arange(3 * w)[None, :]
    near = jnp.abs(i - j) <= w
    m = near[None, None, None] & seen[:, :, None, None, :]
    s = jnp.where(m, s, jnp.finfo(s.dtype).min)
    p = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bnhij,bnjha->bniha", p, v).reshape(b, n * w, dim)[:, :length]
    return jnp.where(valid[..., None], y @ params["o"], 0.0)


def classifier(params, x, valid, heads=4, w=8):
    for blk in params["blocks"]:
        mu = x.mean(-1, keepdims=True)
        z = (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        x = x + sliding_attention(blk, z, valid, heads=heads, w=w)
    pooled = (x * valid[..., None]).sum(1) / valid.sum(1, keepdims=True)
    return pooled @ params["head"]


if __name__ == "__main__":
    k = jax.random.PRNGKey(0)
    p = {"blocks": [init(k, 16, 4)], "head": jax.random.normal(k, (16, 2))}
    valid = jnp.arange(21)[None] < jnp.array([21, 13])[:, None]
    print(classifier(p, jax.random.normal(k, (2, 21, 16)), valid))
