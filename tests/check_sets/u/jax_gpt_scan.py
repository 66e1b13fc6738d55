import jax
import jax.numpy as jnp


def init(key, vocab=40, d=24, n_layer=3, n_head=4, ctx=16):
    ks = jax.random.split(key, 7)
    g = lambda k, *s: 0.2 * jax.random.normal(k, s)
    return {
        "wte": g(ks[0], vocab, d),
        "wpe": g(ks[1], ctx, d),
        "blocks": {
            "ln1": jnp.ones((n_layer, d)), "ln2": jnp.ones((n_layer, d)),
            "qkv": g(ks[2], n_layer, 3, n_head, d, d // n_head),
            "o": g(ks[3], n_layer, n_head, d // n_head, d),
            "up": g(ks[4], n_layer, d, 4 * d), "down": g(ks[5], n_layer, 4 * d, d),
        },
        "ln_f": jnp.ones((d,)),
    }


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def attend(x, p):
    q, k, v = jnp.einsum("td,nhde->nhte", x, p["qkv"])
    s = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1])
    t = jnp.arange(x.shape[0])
    s = jnp.where(t[:, None] >= t[None, :], s, -jnp.inf)
    return jnp.einsum("hts,hse,hed->td", jax.nn.softmax(s), v, p["o"])


def block(x, p):
    x = x + attend(rms(x, p["ln1"]), p)
    return x + jax.nn.gelu(rms(x, p["ln2"]) @ p["up"]) @ p["down"], None


def forward(params, ids):
    x = params["wte"][ids] + params["wpe"][: ids.shape[0]]
    x, _ = jax.lax.scan(block, x, params["blocks"])
    return rms(x, params["ln_f"]) @ params["wte"].T


def logits(params, ids):  # ids: (B, T)
    return jax.vmap(forward, in_axes=(None, 0))(params, ids)
