# Attentive neural process for light curves of variable stars (pure JAX, no flax).
# One star at a time; batches by jax.vmap.
import jax
import jax.numpy as jnp
from jax import random


def mlp_init(key, sizes):
    keys = random.split(key, len(sizes) - 1)
    return [(random.normal(k, (a, b)) * jnp.sqrt(2.0 / a), jnp.zeros(b))
            for k, a, b in zip(keys, sizes[:-1], sizes[1:])]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def cross_attend(params, t_target, t_context, r_context, n_context):
    """Multihead cross attention from target times to context points.

    t_target (T, 1), t_context (C, 1), r_context (C, r)
    n_context: how many of the C rows are real (they come first), rest is padding.
    With n_context = 0 the answer is the projection bias only.
    """
    q = jnp.einsum("tf,fhd->htd", mlp(params["qk"], t_target), params["wq"])
    k = jnp.einsum("cf,fhd->hcd", mlp(params["qk"], t_context), params["wk"])
    v = jnp.einsum("cr,rhd->hcd", r_context, params["wv"])
    real = jnp.arange(t_context.shape[0]) < n_context
    v = jnp.where(real[None, :, None], v, 0.0)

    def one_head(qh, kh, vh):
        s = qh @ kh.T * (qh.shape[-1] ** -0.5)
        w = jax.nn.softmax(s, axis=-1, where=real[None, :])
        return jnp.where(real.any(), w, 0.0) @ vh

    heads = jax.vmap(one_head)(q, k, v)
    return jnp.einsum("htd,hdr->tr", heads, params["wo"]) + params["bo"]


def init(key, feat=16, heads=4, hd=8, r=24):
    ks = random.split(key, 7)
    n = lambda k, *s: random.normal(k, s) / jnp.sqrt(s[0])
    return {
        "attn": {"qk": mlp_init(ks[0], (1, 32, feat)), "wq": n(ks[1], feat, heads, hd),
                 "wk": n(ks[2], feat, heads, hd), "wv": n(ks[3], r, heads, hd),
                 "wo": n(ks[4], heads, hd, r) / jnp.sqrt(hd), "bo": jnp.zeros(r)},
        "enc": mlp_init(ks[5], (2, 32, r)),
        "dec": mlp_init(ks[6], (r + 1, 32, 2)),
    }


def predict(params, t_target, t_context, y_context, n_context):
    r = mlp(params["enc"], jnp.concatenate([t_context, y_context], -1))
    z = cross_attend(params["attn"], t_target, t_context, r, n_context)
    out = mlp(params["dec"], jnp.concatenate([z, t_target], -1))
    return out[:, :1], 0.1 + 0.9 * jax.nn.softplus(out[:, 1:])


def nll(params, batch):
    mu, sd = jax.vmap(predict, in_axes=(None, 0, 0, 0, 0))(
        params, batch["tt"], batch["tc"], batch["yc"], batch["n"])
    return jnp.mean(0.5 * ((batch["yt"] - mu) / sd) ** 2 + jnp.log(sd))
