"""Nez électronique: match gas-chromatograms with perfumers' descriptions.

Symmetric InfoNCE (CLIP) between two towers.  Rows are normalised, the
temperature is learned in the log domain and clipped at 100.
"""
import jax
import jax.numpy as jnp

NOTES = ["bergamot", "vetiver", "iris", "oud", "tonka", "labdanum", "aldehyde"]


def l2(x, eps=1e-8):
    return x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + eps)


def init(key, d_gc, d_txt, d=32):
    a, b = jax.random.split(key)
    return {
        "query": jax.random.normal(a, (d_gc, d)) * d_gc ** -0.5,
        "key": jax.random.normal(b, (d_txt, d)) * d_txt ** -0.5,
        "log_scale": jnp.log(1 / 0.07),
    }


def similarity(params, gc, txt):
    q = l2(gc @ params["query"])
    k = l2(txt @ params["key"])
    scale = jnp.exp(jnp.minimum(params["log_scale"], jnp.log(100.0)))
    return scale * q @ k.T


def scent_loss(params, gc, txt, twins=None):
    """gc [N, d_gc], txt [N, d_txt]; row i of both is the same perfume.

    twins [N, N] bool marks other bottles of the same perfume, which are not
    counted as negatives.
    """
    s = similarity(params, gc, txt)
    n = s.shape[0]
    if twins is not None:
        twins = twins & ~jnp.eye(n, dtype=bool)
        s = jnp.where(twins, -jnp.inf, s)
    i = jnp.arange(n)
    by_gc = jax.nn.log_softmax(s, axis=1)[i, i]
    by_txt = jax.nn.log_softmax(s, axis=0)[i, i]
    return -0.5 * (by_gc.mean() + by_txt.mean())


def recall_at(params, gc, txt, k=1):
    s = similarity(params, gc, txt)
    top = jnp.argsort(-s, axis=1)[:, :k]
    return (top == jnp.arange(len(s))[:, None]).any(1).mean()


@jax.jit
def sgd(params, gc, txt, lr=1e-2):
    loss, g = jax.value_and_grad(scent_loss)(params, gc, txt)
    return jax.tree.map(lambda p, d: p - lr * d, params, g), loss


if __name__ == "__main__":
    k = jax.random.PRNGKey(0)
    p = init(k, 40, len(NOTES))
    gc = jax.random.normal(k, (16, 40))
    txt = jax.random.normal(jax.random.fold_in(k, 1), (16, len(NOTES)))
    for _ in range(5):
        p, loss = sgd(p, gc, txt)
    print(float(loss), float(recall_at(p, gc, txt)))
