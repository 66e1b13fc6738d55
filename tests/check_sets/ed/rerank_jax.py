"""Late cross-encoder for re-ranking passages (JAX).

question  (B, Lq, D)   token vectors from the frozen encoder
passage   (B, Lp, D)   token vectors, right padded
q_len     (B,) int     number of real question tokens, >= 1
p_len     (B,) int     number of real passage tokens, >= 1
params    dict from init(); H heads of size D // H

Each question token reads the real passage tokens (scaled dot product, per head),
the result goes through an output matrix and a residual MLP, and the score of a
passage is the mean over the real question tokens of a linear read-out -> (B,).
"""
import jax
import jax.numpy as jnp


def init(key, D, H):
    ks = jax.random.split(key, 7)
    n = lambda k, *s: jax.random.normal(k, s) * s[0] ** -0.5
    return {
        "q": n(ks[0], D, H, D // H),
        "k": n(ks[1], D, H, D // H),
        "v": n(ks[2], D, H, D // H),
        "o": n(ks[3], D, D).reshape(H, D // H, D),
        "up": n(ks[4], D, 2 * D),
        "down": n(ks[5], 2 * D, D),
        "score": n(ks[6], D, 1)[:, 0],
    }


def rms(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def read_passage(params, question, passage, p_len):
    q = jnp.einsum("bld,dhk->blhk", rms(question), params["q"])
    k = jnp.einsum("bld,dhk->blhk", rms(passage), params["k"])
    v = jnp.einsum("bld,dhk->blhk", passage, params["v"])
    y = jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=p_len)
    return jnp.einsum("blhk,hkd->bld", y, params["o"])


@jax.jit
def rerank(params, question, passage, q_len, p_len):
    x = question + read_passage(params, question, passage, p_len.astype(jnp.int32))
    x = x + jax.nn.gelu(rms(x) @ params["up"]) @ params["down"]
    s = rms(x) @ params["score"]
    real = jnp.arange(s.shape[1]) < q_len[:, None]
    return jnp.where(real, s, 0.0).sum(1) / q_len
