# multi-query attention whose keys are read in chunks under lax.scan (memory-efficient, Rabe & Staats).
# weights are kept as numpy arrays on the host and given to jax at call time
import numpy as np
import jax
import jax.numpy as jnp
from jax import lax


def load_weights(path_or_rng, d_model=32, heads=4, dim=8):
    """npz file with q, k, v, o or a numpy Generator for random weights."""
    if isinstance(path_or_rng, np.random.Generator):
        g = path_or_rng
        return {
            "q": g.normal(0, d_model ** -0.5, (d_model, heads, dim)).astype(np.float32),
            "k": g.normal(0, d_model ** -0.5, (d_model, dim)).astype(np.float32),
            "v": g.normal(0, d_model ** -0.5, (d_model, dim)).astype(np.float32),
            "o": g.normal(0, (heads * dim) ** -0.5, (heads, dim, d_model)).astype(np.float32),
        }
    with np.load(path_or_rng) as f:
        return {n: f[n] for n in "qkvo"}


def _pad_to(x, n):
    return jnp.pad(x.astype(jnp.float32), ((0, 0), (0, n - x.shape[1]), (0, 0)))


def mqa_chunked(q, k, v, kv_len, chunk=4):
    """q [B, T, H, D]; k, v [B, S, D] (one head for all queries); kv_len [B], >= 1: the first
    kv_len keys are real. Not causal. -> [B, T, H, D]"""
    B, T, H, D = q.shape
    S = k.shape[1]
    n = -(-S // chunk)
    ks = _pad_to(k, n * chunk).reshape(B, n, chunk, D).swapaxes(0, 1)
    vs = _pad_to(v, n * chunk).reshape(B, n, chunk, D).swapaxes(0, 1)
    starts = jnp.arange(n) * chunk
    qf = q.astype(jnp.float32) * jnp.float32(D ** -0.5)
    low = jnp.float32(-1e30)

    def body(carry, item):
        m, l, acc = carry
        kc, vc, start = item
        s = jnp.einsum("bthd,bcd->bthc", qf, kc)
        live = (start + jnp.arange(chunk))[None, :] < kv_len[:, None]
        live = live[:, None, None, :]
        m2 = jnp.maximum(m, jnp.where(live, s, low).max(-1))
        p = jnp.where(live, jnp.exp(s - m2[..., None]), 0.0)
        fix = jnp.exp(m - m2)
        l = l * fix + p.sum(-1)
        acc = acc * fix[..., None] + jnp.einsum("bthc,bcd->bthd", p, vc)
        return (m2, l, acc), None

    init = (jnp.full((B, T, H), low), jnp.zeros((B, T, H), low.dtype), jnp.zeros((B, T, H, D), low.dtype))
    (_, l, acc), _ = lax.scan(body, init, (ks, vs, starts))
    return (acc / l[..., None]).astype(q.dtype)


def layer(w, x, ctx, ctx_len, chunk=4):
    """Cross attention from x [B, T, d_model] to ctx [B, S, d_model]."""
    q = jnp.einsum("btm,mhd->bthd", x, w["q"])
    o = mqa_chunked(q, ctx @ w["k"], ctx @ w["v"], ctx_len, chunk)
    return jnp.einsum("bthd,hdm->btm", o, w["o"])


def main():
    g = np.random.default_rng(0)
    w = load_weights(g)
    fn = jax.jit(layer, static_argnames="chunk")
    y = fn(w, g.normal(size=(2, 3, 32)), g.normal(size=(2, 10, 32)), jnp.array([10, 6]))
    print(np.asarray(y).shape)


if __name__ == "__main__":
    main()
