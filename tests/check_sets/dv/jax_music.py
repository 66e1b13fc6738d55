import jax
import jax.numpy as jnp


def causal_attention(params, x, n_heads):
    """Causal multi-head attention of the note model (as in "Attention is all you need").

    params: dict, 'wq' 'wk' 'wv' 'wo' each (dim, dim), used as x @ w; heads are consecutive
            blocks of dim // n_heads columns
    x:      (batch, notes, dim)
    Note t reads notes 0..t. Returns (batch, notes, dim).
    """
    b, t, dim = x.shape
    hd = dim // n_heads

    def heads(w):
        return (x @ w).reshape(b, t, n_heads, hd).transpose(0, 2, 1, 3)

    q, k, v = heads(params["wq"]), heads(params["wk"]), heads(params["wv"])
    scores = jnp.matmul(q, k.swapaxes(-1, -2))
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    probs = jax.nn.softmax(scores, axis=-1)
    ctx = jnp.matmul(probs, v).reshape(b, t, dim)
    return ctx @ params["wo"]


def block(params, x, n_heads=4):
    """x + attention, then x + two layer MLP ('w1' (dim, ff), 'w2' (ff, dim)); RMS pre-norm."""
    rms = lambda z: z * jax.lax.rsqrt(jnp.mean(z * z, -1, keepdims=True) + 1e-6)
    x = x + causal_attention(params, rms(x), n_heads)
    return x + jax.nn.gelu(rms(x) @ params["w1"]) @ params["w2"]


def init_params(key, dim=32, ff=64):
    names = {"wq": (dim, dim), "wk": (dim, dim), "wv": (dim, dim), "wo": (dim, dim),
             "w1": (dim, ff), "w2": (ff, dim)}
    keys = jax.random.split(key, len(names))
    return {n: jax.random.normal(k, s) * s[0] ** -0.5 for k, (n, s) in zip(keys, names.items())}
