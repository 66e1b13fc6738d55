"""One parallel (PaLM/GPT-J form) block in JAX, with a single shared key/value head.

    y = x + Attn(LN(x)) + MLP(LN(x))          both branches read the same normed input

Arguments of `parallel_block`
    params   dict: ln (D,), w_in (D, H*d + d + d + F), w_attn (H*d, D), w_mlp (F, D)
             columns of w_in, left to right: queries of all heads (head major), the one key,
             the one value, the MLP.
    x        (B, L, D)
    is_pad   (B, L) bool, True at padding.  Padding is on the right and every row has at
             least one real token.
    n_heads  int
Attention is causal and skips padded keys; rows of padded positions come out as 0.
"""
import jax
import jax.numpy as jnp


def layer_norm(x, gain, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / jnp.sqrt(var + eps) * gain


def parallel_block(params, x, is_pad, n_heads):
    B, L, D = x.shape
    d = params["w_attn"].shape[0] // n_heads
    h = layer_norm(x, params["ln"])
    fused = h @ params["w_in"]
    q, k, v, ff = jnp.split(fused, [n_heads * d, n_heads * d + d, n_heads * d + 2 * d], axis=-1)
    q = q.reshape(B, L, n_heads, d) * d ** -0.5

    sim = jnp.einsum("bihd,bjd->bhij", q, k)
    earlier = jnp.tril(jnp.ones((L, L), bool))
    ok = earlier[None, None] & ~is_pad[:, None, None, :]
    sim = jnp.where(ok, sim, jnp.finfo(sim.dtype).min)
    att = jax.nn.softmax(sim, axis=-1)

    ctx = jnp.einsum("bhij,bjd->bihd", att, v).reshape(B, L, n_heads * d)
    y = x + ctx @ params["w_attn"] + jax.nn.gelu(ff) @ params["w_mlp"]
    return jnp.where(is_pad[..., None], 0.0, y)


def init(key, D, n_heads, d, F):
    a, b, c = jax.random.split(key, 3)
    return {
        "ln": jnp.ones(D),
        "w_in": jax.random.normal(a, (D, n_heads * d + 2 * d + F)) * D ** -0.5,
        "w_attn": jax.random.normal(b, (n_heads * d, D)) * (n_heads * d) ** -0.5,
        "w_mlp": jax.random.normal(c, (F, D)) * F ** -0.5,
    }
