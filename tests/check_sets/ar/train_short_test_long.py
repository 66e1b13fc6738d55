"""ALiBi toy: train on 64 characters, test on 256.  (Press et al., "Train short, test long")

For n heads (a power of two here) head h = 1..n has the slope 2^(-8h/n), so 8 heads have
1/2, 1/4, ..., 1/256.  The penalty grows with the distance to the past.
"""
import jax
import jax.numpy as jnp
import numpy as np


def get_slopes(n_heads):
    assert n_heads & (n_heads - 1) == 0, "power of two please"
    ratio = 2.0 ** (-8.0 / n_heads)
    return ratio ** np.arange(n_heads)


def alibi(n_heads, t):
    """[n_heads, t, t] with -inf above the diagonal"""
    i = np.arange(t)[:, None]
    j = np.arange(t)[None, :]
    penalty = -(i - j)[None] * get_slopes(n_heads)[:, None, None]
    return jnp.asarray(np.where(j > i, -np.inf, penalty), jnp.float32)


def dense(rng, i, o):
    return {"w": jax.random.normal(rng, (i, o)) * i ** -0.5, "b": jnp.zeros(o)}


def init_params(rng, vocab=64, dim=32, depth=2):
    keys = iter(jax.random.split(rng, 4 * depth + 2))
    layers = [{"qkv": dense(next(keys), dim, 3 * dim), "o": dense(next(keys), dim, dim),
               "up": dense(next(keys), dim, 4 * dim), "down": dense(next(keys), 4 * dim, dim)} for _ in range(depth)]
    return {"emb": jax.random.normal(next(keys), (vocab, dim)) * 0.1, "layers": layers,
            "out": dense(next(keys), dim, vocab)}


def lin(p, x):
    return x @ p["w"] + p["b"]


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5)


def alibi_attention(p, x, n_heads):
    b, t, c = x.shape
    q, k, v = jnp.split(lin(p["qkv"], x), 3, axis=-1)
    q, k, v = (a.reshape(b, t, n_heads, c // n_heads).swapaxes(1, 2) for a in (q, k, v))
    logits = q @ k.swapaxes(2, 3) / np.sqrt(c // n_heads) + alibi(n_heads, t)
    y = jax.nn.softmax(logits, axis=-1) @ v
    return lin(p["o"], y.swapaxes(1, 2).reshape(b, t, c))


def model(params, ids, n_heads=8):
    x = params["emb"][ids]
    for l in params["layers"]:
        x = x + alibi_attention(l, norm(x), n_heads)
        x = x + lin(l["down"], jax.nn.gelu(lin(l["up"], norm(x))))
    return lin(params["out"], norm(x))


def loss(params, ids, n_heads=8):
    lp = jax.nn.log_softmax(model(params, ids[:, :-1], n_heads))
    return -jnp.take_along_axis(lp, ids[:, 1:, None], axis=-1).mean()


if __name__ == "__main__":
    params = init_params(jax.random.PRNGKey(0))
    ids = jax.random.randint(jax.random.PRNGKey(1), (2, 17), 0, 64)
    g = jax.grad(loss)(params, ids)
    params = jax.tree.map(lambda p, d: p - 0.1 * d, params, g)
    print(loss(params, ids))
