"""Perceiver cross-attention + one latent self-attention layer, functional JAX.

Parameters are a nested dict (pytree).  Latents [N, D] read an input array [M, C] of any size;
use jax.vmap for a batch.  Heads live on the last-but-one axis; value heads may have another
size than the query/key heads.  Residual around each attention, MLP omitted here.
"""
import jax
import jax.numpy as jnp


def _dense(key, n_in, n_out):
    return {"w": jax.random.normal(key, (n_in, n_out)) * n_in ** -0.5, "b": jnp.zeros(n_out)}


def init_attention(key, d_q, d_kv, heads, qk_dim, v_dim):
    ks = jax.random.split(key, 4)
    return {
        "q": _dense(ks[0], d_q, heads * qk_dim),
        "k": _dense(ks[1], d_kv, heads * qk_dim),
        "v": _dense(ks[2], d_kv, heads * v_dim),
        "o": _dense(ks[3], heads * v_dim, d_q),
    }


def init_perceiver(key, n_latents, d_latent, d_input, heads=2, qk_dim=6, v_dim=10):
    a, b, c = jax.random.split(key, 3)
    return {
        "latents": jax.random.normal(a, (n_latents, d_latent)),
        "cross": init_attention(b, d_latent, d_input, heads, qk_dim, v_dim),
        "self": init_attention(c, d_latent, d_latent, heads, qk_dim, v_dim),
    }


def apply_dense(p, x):
    return x @ p["w"] + p["b"]


def norm(x, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def attend(p, x_q, x_kv, heads, keep=None):
    q = apply_dense(p["q"], x_q).reshape(x_q.shape[0], heads, -1)
    k = apply_dense(p["k"], x_kv).reshape(x_kv.shape[0], heads, -1)
    v = apply_dense(p["v"], x_kv).reshape(x_kv.shape[0], heads, -1)
    logits = jnp.einsum("nhd,mhd->hnm", q, k) * q.shape[-1] ** -0.5
    if keep is not None:
        logits = jnp.where(keep[None, None, :], logits, -jnp.inf)
    weights = jax.nn.softmax(logits, axis=-1)
    out = jnp.einsum("hnm,mhe->nhe", weights, v)
    return apply_dense(p["o"], out.reshape(x_q.shape[0], -1))


def perceiver_encode(params, inputs, keep=None, heads=2):
    """inputs [M, C]; keep [M] bool, True for real entries (at least one)."""
    z = params["latents"]
    z = z + attend(params["cross"], norm(z), norm(inputs), heads, keep)
    return z + attend(params["self"], norm(z), norm(z), heads)


if __name__ == "__main__":
    p = init_perceiver(jax.random.PRNGKey(0), 4, 12, 7)
    print(perceiver_encode(p, jnp.ones((9, 7))).shape)
