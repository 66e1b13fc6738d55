"""Transformers are RNNs (Katharopoulos et al., 2020) in JAX, autoregressive version.

Eq. (8)-(9) with the causal sums of section 3.3:

    V'_i = phi(Q_i)^T S_i / ( phi(Q_i)^T Z_i )
    S_i  = sum_{j <= i} phi(K_j) V_j^T ,    Z_i = sum_{j <= i} phi(K_j)
    phi(x) = elu(x) + 1

Used for generating images pixel after pixel: pixel i must depend on pixels 0..i only.
"""
import jax
import jax.numpy as jnp


def phi(x):
    return jax.nn.elu(x) + 1.0


def causal_linear_attention(q, k, v, eps=1e-6):
    """q, k (B, N, H, D), v (B, N, H, M) -> (B, N, H, M). No padding.

    phi is positive, hence no softmax and no scale are needed; the division makes the
    implied weights of position i sum to one.
    """
    q, k = phi(q), phi(k)
    s = jnp.einsum("bnhd,bnhm->bhdm", k, v)
    z = k.sum(axis=1)
    num = jnp.einsum("bnhd,bhdm->bnhm", q, s)
    den = jnp.einsum("bnhd,bhd->bnh", q, z)
    return num / (den[..., None] + eps)


def init_block(rng, d, heads):
    a, b, c, e = jax.random.split(rng, 4)
    g = lambda r, s: jax.random.normal(r, s) * s[0] ** -0.5
    return {
        "qkv": g(a, (d, 3, heads, d // heads)),
        "out": g(b, (d, d)),
        "up": g(c, (d, 4 * d)),
        "down": g(e, (4 * d, d)),
    }


def block(p, x):
    """x (B, N, d) -> (B, N, d), one pre-norm decoder block."""
    ln = lambda t: (t - t.mean(-1, keepdims=True)) / jnp.sqrt(t.var(-1, keepdims=True) + 1e-5)
    q, k, v = jnp.moveaxis(jnp.einsum("bnd,dthe->bnthe", ln(x), p["qkv"]), 2, 0)
    a = causal_linear_attention(q, k, v)
    x = x + a.reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(ln(x) @ p["up"]) @ p["down"]
