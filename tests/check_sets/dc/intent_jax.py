import jax
import jax.numpy as jnp


def init(key, D):
    ks = jax.random.split(key, 4)
    return {n: jax.random.normal(k, (D, D)) / jnp.sqrt(D) for n, k in zip(("q", "k", "v", "o"), ks)}


def intent_encoder(w, tokens, n_heads):
    """tokens (B, L, D) -> (B, L, D); head h works on the features h*d .. (h+1)*d - 1 of every token."""
    B, L, D = tokens.shape
    d = D // n_heads

    def heads(a):
        return a.reshape(B, n_heads, L, d)

    q = heads(tokens @ w["q"])
    k = heads(tokens @ w["k"])
    v = heads(tokens @ w["v"])
    a = jax.nn.softmax(jnp.einsum("bhid,bhjd->bhij", q, k) * d ** -0.5, axis=-1)
    y = jnp.einsum("bhij,bhjd->bhid", a, v)
    y = y.transpose(0, 2, 1, 3).reshape(B, L, D)
    return tokens + y @ w["o"]
