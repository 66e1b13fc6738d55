"""Matches photographs of fabric swatches with their mill descriptions.

Symmetric InfoNCE over a batch with a queue of older descriptions as extra
negatives (MoCo style). Loss in JAX, queue and metrics in NumPy on the host.
"""
import collections

import jax
import jax.numpy as jnp
import numpy as np

FIBRES = ("wool", "linen", "cotton", "silk", "hemp", "ramie", "viscose", "lyocell")
GSM_BUCKETS = np.array([80, 120, 160, 220, 300, 400])


def unit(x, axis=-1):
    return x / jnp.maximum(jnp.linalg.norm(x, axis=axis, keepdims=True), 1e-6)


def init(key, d_photo=64, d_text=40, d=24):
    a, b = jax.random.split(key)
    return {"photo": jax.random.normal(a, (d_photo, d)) * d_photo ** -0.5,
            "text": jax.random.normal(b, (d_text, d)) * d_text ** -0.5,
            "log_tau": jnp.log(jnp.asarray(0.07))}


def swatch_loss(params, photo, text, queue=None):
    """photo [n, d_photo] and text [n, d_text] belong together row by row.

    queue [m, d] (already unit length) only ever serves as negatives.
    """
    query = unit(photo @ params["photo"])
    key = unit(text @ params["text"])
    scale = jnp.exp(-params["log_tau"])
    scores = query @ key.T * scale                              # [n, n]
    wide = scores if queue is None else jnp.concatenate([scores, query @ queue.T * scale], axis=1)
    here = jnp.diagonal(scores)
    by_photo = jax.nn.logsumexp(wide, axis=1) - here
    by_text = jax.nn.logsumexp(scores, axis=0) - here
    return 0.5 * (by_photo.mean() + by_text.mean())


grad = jax.jit(jax.value_and_grad(swatch_loss))


class DescriptionQueue:
    """first in, first out; rows are unit vectors"""

    def __init__(self, size):
        self.rows = collections.deque(maxlen=size)

    def push(self, key):
        self.rows.extend(np.asarray(key))

    def array(self):
        return np.stack(self.rows) if self.rows else None


def recall_at(photo_vec, text_vec, k=5):
    """share of photographs whose own description is among the k most similar"""
    photo_vec, text_vec = np.asarray(photo_vec), np.asarray(text_vec)
    sims = photo_vec @ text_vec.T
    order = np.argsort(-sims, axis=1)[:, :k]
    return float((order == np.arange(len(sims))[:, None]).any(axis=1).mean())


def mill_vector(fibres, gsm, weave_id, n_weaves=24):
    """{'wool': 0.8, 'silk': 0.2}, 240, 3 -> 40 numbers"""
    v = np.zeros(len(FIBRES) + len(GSM_BUCKETS) + 1 + n_weaves + 1, np.float32)
    for f, share in fibres.items():
        v[FIBRES.index(f)] = share
    v[len(FIBRES) + np.searchsorted(GSM_BUCKETS, gsm)] = 1
    v[len(FIBRES) + len(GSM_BUCKETS) + 1 + weave_id] = 1
    v[-1] = np.log(gsm)
    return v


def train(params, batches, lr=0.05, queue_size=128):
    queue = DescriptionQueue(queue_size)
    for photo, text in batches:
        value, g = grad(params, photo, text, queue.array())
        params = jax.tree_util.tree_map(lambda p, d: p - lr * d, params, g)
        queue.push(unit(text @ params["text"]))
        yield float(value), params


if __name__ == "__main__":
    rs = np.random.default_rng(0)
    p = init(jax.random.PRNGKey(0))
    data = [(rs.normal(size=(16, 64)), rs.normal(size=(16, 40))) for _ in range(3)]
    for loss, p in train(p, data):
        print(round(loss, 3))
