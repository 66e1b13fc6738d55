"""HuBERT / wav2vec 2.0 encoder layer in JAX (post-norm version), own re-implementation.

layer(params, x, lengths, heads)
    params  dict with "wq","bq","wk","bk","wv","bv","wo","bo" (D x D and D), "w1","b1","w2","b2"
            (D x F, F, F x D, D), "g1","s1","g2","s2" (D) for the two layer norms
    x       (B, T, D) frame features
    lengths (B,) number of real frames of each utterance, at least 1
    ->      (B, T, D)

Multi-head attention over the real frames of the same utterance, q scaled by 1/sqrt(D/heads)
after its bias, GELU feed-forward, layer norm after each residual.
"""
import jax
import jax.numpy as jnp


def norm(x, g, s):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + s


def fold(x, heads):
    """one big batch of heads, so that everything is a 3-D matmul"""
    B, T, D = x.shape
    x = x.reshape(B, T, heads, D // heads)
    return x.transpose(0, 2, 1, 3).reshape(B * heads, T, D // heads)


def unfold(x, heads):
    N, T, d = x.shape
    x = x.reshape(heads, N // heads, T, d)
    return x.transpose(1, 2, 0, 3).reshape(N // heads, T, heads * d)


def layer(params, x, lengths, heads):
    p = params
    T, D = x.shape[1:]
    q = (x @ p["wq"] + p["bq"]) * (D // heads) ** -0.5
    k = x @ p["wk"] + p["bk"]
    v = x @ p["wv"] + p["bv"]
    q, k, v = fold(q, heads), fold(k, heads), fold(v, heads)
    real = jnp.arange(T)[None, :] < lengths[:, None]
    real = jnp.repeat(real, heads, axis=0)[:, None, :]
    logits = jnp.matmul(q, k.swapaxes(1, 2))
    logits = jnp.where(real, logits, jnp.finfo(logits.dtype).min)
    y = unfold(jnp.matmul(jax.nn.softmax(logits, axis=-1), v), heads)
    x = norm(x + y @ p["wo"] + p["bo"], p["g1"], p["s1"])
    y = jax.nn.gelu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
    return norm(x + y, p["g2"], p["s2"])
