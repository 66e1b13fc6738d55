"""llama in ~60 lines of jax. weights come straight from the converted HF checkpoint
(wq: [E, H*D], wk/wv: [E, K*D], wo: [H*D, E]); kv head n serves the query heads
n*H/K ... (n+1)*H/K - 1."""
import jax
import jax.numpy as jnp


def rms(x, g, eps=1e-5):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + eps) * g


def rope(x, theta=10000.0):
    # x: T, H, D ; half-split layout as in HF
    T, _, D = x.shape
    inv = theta ** (-jnp.arange(0, D, 2) / D)
    a = jnp.arange(T)[:, None, None] * inv
    c, s = jnp.cos(a), jnp.sin(a)
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], axis=-1)


def attention(p, x, n_heads, n_kv):
    """x: T, E -> T, E (causal)"""
    T = x.shape[0]
    q = rope((x @ p["wq"]).reshape(T, n_heads, -1))
    k = rope((x @ p["wk"]).reshape(T, n_kv, -1))
    v = (x @ p["wv"]).reshape(T, n_kv, -1)
    rep = n_heads // n_kv
    k = jnp.tile(k, (1, rep, 1))
    v = jnp.tile(v, (1, rep, 1))
    s = jnp.einsum("thd,shd->hts", q, k) * q.shape[-1] ** -0.5
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -jnp.inf)
    w = jax.nn.softmax(s.astype(jnp.float32), axis=-1).astype(x.dtype)
    return jnp.einsum("hts,shd->thd", w, v).reshape(T, -1) @ p["wo"]


def mlp(p, x):
    return (jax.nn.silu(x @ p["w1"]) * (x @ p["w3"])) @ p["w2"]


def layer(p, x, n_heads, n_kv):
    x = x + attention(p, rms(x, p["g1"]), n_heads, n_kv)
    return x + mlp(p, rms(x, p["g2"]))


def random_layer(key, E=24, H=4, K=2, D=6, F=32):
    ks = jax.random.split(key, 7)
    shapes = dict(wq=(E, H * D), wk=(E, K * D), wv=(E, K * D), wo=(H * D, E), w1=(E, F), w3=(E, F), w2=(F, E))
    p = {n: jax.random.normal(kk, s) * s[0] ** -0.5 for kk, (n, s) in zip(ks, shapes.items())}
    return {**p, "g1": jnp.ones(E), "g2": jnp.ones(E)}


if __name__ == "__main__":
    pr = random_layer(jax.random.PRNGKey(0))
    print(layer(pr, jnp.ones((5, 24)), 4, 2).shape)
