"""Contrastive training of an audio encoder against a text encoder (symmetric InfoNCE)."""
import jax
import jax.numpy as jnp
import numpy as np

D = 24


def init(seed=0, audio=40, text=30):
    g = np.random.default_rng(seed)
    return {
        "audio": jnp.asarray(g.normal(0, audio ** -0.5, (audio, D))),
        "text": jnp.asarray(g.normal(0, text ** -0.5, (text, D))),
        "log_temp": jnp.asarray(np.log(1 / 0.07)),
    }


def unit(x):
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True) + 1e-8)


def similarity(params, audio, text):
    """[N, N] temperature-scaled cosine of every query clip with every key caption."""
    q = unit(audio @ params["audio"])
    k = unit(text @ params["text"])
    scale = jnp.exp(jnp.minimum(params["log_temp"], np.log(100.0)))
    return q @ k.T * scale


def info_nce(params, audio, text, same=None):
    """Symmetric cross entropy, the pairs on the diagonal.

    same [N, N] bool: True where another caption is a duplicate and must not count as a negative.
    """
    s = similarity(params, audio, text)
    if same is not None:
        off = same & ~jnp.eye(len(s), dtype=bool)
        s = jnp.where(off, -1e9, s)
    rows = jax.nn.log_softmax(s, axis=1)
    cols = jax.nn.log_softmax(s, axis=0)
    return -(jnp.diag(rows).mean() + jnp.diag(cols).mean()) / 2


@jax.jit
def sgd_step(params, audio, text, lr=0.1):
    loss, grad = jax.value_and_grad(info_nce)(params, audio, text)
    return jax.tree.map(lambda p, g: p - lr * g, params, grad), loss


def recall_at(params, audio, text, k=1):
    s = np.asarray(similarity(params, audio, text))
    order = np.argsort(-s, axis=1)[:, :k]
    return float((order == np.arange(len(s))[:, None]).any(1).mean())


def synthetic(n, seed=0):
    g = np.random.default_rng(seed)
    z = g.normal(size=(n, 10))
    a = z @ g.normal(size=(10, 40)) + 0.1 * g.normal(size=(n, 40))
    t = z @ g.normal(size=(10, 30)) + 0.1 * g.normal(size=(n, 30))
    return jnp.asarray(a), jnp.asarray(t)


def main():
    params = init()
    a, t = synthetic(32)
    for i in range(20):
        params, loss = sgd_step(params, a, t)
    print(float(loss), recall_at(params, a, t))


if __name__ == "__main__":
    main()
