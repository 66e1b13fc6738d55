"""Traffic forecasting with local causal attention over sensor histories."""
import jax
import jax.numpy as jnp


def init_params(key, d_model, n_heads):
    ks = jax.random.split(key, 4)
    s = d_model ** -0.5
    names = ("wq", "wk", "wv", "wo")
    return {n: jax.random.normal(k, (d_model, d_model)) * s for n, k in zip(names, ks)}


def band_mask(length, window):
    """(length, length) bool, True where step i may look at step j."""
    i = jnp.arange(length)[:, None]
    j = jnp.arange(length)[None, :]
    return (j <= i) & (i - j <= window)


def local_attention(params, x, n_heads, window):
    """Causal attention with a window.

    x: (batch, length, d_model), equally spaced measurements of one sensor each.
    Step i attends to exactly `window` steps (fewer at the start): itself and the window - 1 before it;
    window=1 means that a step only sees itself. Scores / sqrt(d_model / n_heads).
    Returns (batch, length, d_model).
    """
    b, t, d = x.shape
    heads = lambda w: (x @ params[w]).reshape(b, t, n_heads, d // n_heads)
    q, k, v = heads("wq"), heads("wk"), heads("wv")
    s = jnp.einsum("bihc,bjhc->bhij", q, k) * (d // n_heads) ** -0.5
    s = jnp.where(band_mask(t, window), s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1)
    y = jnp.einsum("bhij,bjhc->bihc", p, v).reshape(b, t, d)
    return y @ params["wo"]


def forecast(params, head, x, n_heads=4, window=6):
    """head (d_model, horizon); x as above -> (batch, horizon) from the last step."""
    return local_attention(params, x, n_heads, window)[:, -1] @ head
