"""A transformer block on a dictionary of parameters, in plain JAX."""
import jax
import jax.numpy as jnp


def layer_norm(x, p):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * p["scale"] + p["shift"]


def init(key, dim=16, heads=2):
    k = jax.random.split(key, 6)
    w = lambda key, *shape: jax.random.normal(key, shape) / jnp.sqrt(shape[0])
    ln = {"scale": jnp.ones(dim), "shift": jnp.zeros(dim)}
    return {
        "ln1": ln,
        "ln2": dict(ln),
        "q": w(k[0], dim, heads, dim // heads),
        "k": w(k[1], dim, heads, dim // heads),
        "v": w(k[2], dim, heads, dim // heads),
        "o": w(k[3], dim, dim).reshape(heads, dim // heads, dim),
        "w1": w(k[4], dim, 4 * dim),
        "w2": w(k[5], 4 * dim, dim),
    }


PARAMS = init(jax.random.PRNGKey(0))


def transformer_block(x, params=PARAMS):
    """x: (batch, time, 16); causal."""
    p = params
    h = layer_norm(x, p["ln1"])
    q = jnp.einsum("btd,dhk->bthk", h, p["q"])
    k = jnp.einsum("btd,dhk->bthk", h, p["k"])
    v = jnp.einsum("btd,dhk->bthk", h, p["v"])
    logits = jnp.einsum("bthk,bshk->bhts", q, k) / jnp.sqrt(q.shape[-1])
    t = x.shape[1]
    logits = jnp.where(jnp.arange(t)[:, None] >= jnp.arange(t), logits, -jnp.inf)
    y = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(logits), v)
    x = x + jnp.einsum("bthk,hkd->btd", y, p["o"])
    return x + jax.nn.gelu(layer_norm(x, p["ln2"]) @ p["w1"]) @ p["w2"]
