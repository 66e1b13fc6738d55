"""Talking-heads attention (Shazeer et al. 2020), JAX; params are a plain pytree."""
from functools import partial

import jax
import jax.numpy as jnp


def init_params(key, d_model, h, d_k):
    ks = jax.random.split(key, 6)
    n = jax.random.normal
    return {
        "wq": n(ks[0], (d_model, h, d_k)) * d_model ** -0.5,
        "wk": n(ks[1], (d_model, h, d_k)) * d_model ** -0.5,
        "wv": n(ks[2], (d_model, h, d_k)) * d_model ** -0.5,
        "wo": n(ks[3], (h, d_k, d_model)) * (h * d_k) ** -0.5,
        # mixing over heads: before and after the softmax
        "pl": jnp.eye(h) + 0.1 * n(ks[4], (h, h)),
        "pw": jnp.eye(h) + 0.1 * n(ks[5], (h, h)),
    }


@partial(jax.jit, static_argnames=("causal",))
def talking_heads(params, x, ctx, ctx_mask=None, causal=False):
    """x (B, N, E) attends to ctx (B, M, E). ctx_mask (B, M): True = real token.

    The mask is applied after the logits are mixed; the mixed weights need not
    sum to one (pw is free), as in the paper.
    """
    q = jnp.einsum("bne,ehd->bhnd", x, params["wq"])
    k = jnp.einsum("bme,ehd->bhmd", ctx, params["wk"])
    v = jnp.einsum("bme,ehd->bhmd", ctx, params["wv"])
    logits = jnp.einsum("bhnd,bhmd->bhnm", q, k) / jnp.sqrt(q.shape[-1])
    logits = jnp.einsum("bhnm,hg->bgnm", logits, params["pl"])
    keep = jnp.ones((1, 1, x.shape[1], ctx.shape[1]), bool)
    if ctx_mask is not None:
        keep = keep & ctx_mask[:, None, None, :]
    if causal:
        keep = keep & jnp.tri(x.shape[1], ctx.shape[1], ctx.shape[1] - x.shape[1], dtype=bool)
    logits = jnp.where(keep, logits, jnp.finfo(logits.dtype).min)
    w = jax.nn.softmax(logits, axis=-1)
    w = jnp.einsum("bgnm,gf->bfnm", w, params["pw"])
    o = jnp.einsum("bfnm,bfmd->bfnd", w, v)
    return jnp.einsum("bfnd,fde->bne", o, params["wo"])


def block(params, x, mask=None):
    mu = x.mean(-1, keepdims=True)
    h = (x - mu) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x + talking_heads(params["attn"], h, h, mask)


if __name__ == "__main__":
    p = init_params(jax.random.PRNGKey(0), 16, 4, 8)
    y = jax.random.normal(jax.random.PRNGKey(1), (2, 5, 16))
    print(talking_heads(p, y, y).shape)
