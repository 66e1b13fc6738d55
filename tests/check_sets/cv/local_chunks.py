import jax
import jax.numpy as jnp


def local_attention(q, k, v, W=4):
    """Causal local attention for raw audio, O(T W) memory.

    q, k, v: [T, H, D], T a multiple of W. Position t attends to W positions in all: t itself and
    the W - 1 before it (fewer at the beginning). The sequence is cut in chunks of W; a chunk
    reads itself and the chunk before. Returns [T, H, D].
    """
    T, H, D = q.shape
    n = T // W
    qc, kc, vc = (a.reshape(n, W, H, D) for a in (q, k, v))

    def with_previous(c):
        before = jnp.concatenate([jnp.zeros_like(c[:1]), c[:-1]], 0)
        return jnp.concatenate([before, c], 1)                  # n, 2W, H, D

    kc, vc = with_previous(kc), with_previous(vc)
    tq = jnp.arange(T).reshape(n, W)
    tk = jnp.arange(n)[:, None] * W + jnp.arange(-W, W)[None]   # n, 2W
    lag = tq[:, :, None] - tk[:, None, :]
    ok = (lag >= 0) & (lag <= W) & (tk[:, None, :] >= 0)

    s = jnp.einsum("nqhd,nkhd->nhqk", qc, kc) / jnp.sqrt(D)
    s = jnp.where(ok[:, None], s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("nhqk,nkhd->nqhd", p, vc).reshape(T, H, D)
