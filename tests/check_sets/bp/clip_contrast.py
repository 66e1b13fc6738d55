"""CLIP / NT-Xent losses in numpy, to check the torch implementation of the lab."""
import numpy as np


def l2norm(x, axis=-1, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), eps)


def log_softmax(z, axis):
    z = z - z.max(axis=axis, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=axis, keepdims=True))


class ClipLoss:
    """Symmetric cross entropy of the image-text similarity matrix.

    image, text: (batch, dim) embeddings, row i of both belongs together.
    valid: (batch,) bool, pairs with a missing caption are left out on both sides.
    """

    def __init__(self, init_temperature=0.07):
        self.log_scale = np.log(1.0 / init_temperature)

    def similarity(self, image, text):
        scale = min(np.exp(self.log_scale), 100.0)
        return scale * l2norm(image) @ l2norm(text).T

    def __call__(self, image, text, valid=None):
        if valid is not None:
            image, text = image[valid], text[valid]
        sim = self.similarity(image, text)
        rows = log_softmax(sim, axis=1).diagonal()
        cols = log_softmax(sim, axis=0).diagonal()
        return -0.5 * (rows.mean() + cols.mean())

    def grad_scale(self, image, text, eps=1e-5):
        old, out = self.log_scale, []
        for s in (eps, -eps):
            self.log_scale = old + s
            out.append(self(image, text))
        self.log_scale = old
        return (out[0] - out[1]) / (2 * eps)


def nt_xent(z1, z2, temperature=0.5):
    """SimCLR loss: 2N views, the partner is the only positive, a view never meets itself."""
    n = len(z1)
    z = l2norm(np.concatenate([z1, z2]))
    sim = z @ z.T / temperature
    np.fill_diagonal(sim, -np.inf)
    logp = log_softmax(sim, axis=1)
    partner = np.concatenate([np.arange(n, 2 * n), np.arange(n)])
    return -logp[np.arange(2 * n), partner].mean()


def recall_at_k(image, text, k=1):
    sim = l2norm(image) @ l2norm(text).T
    rank = (sim > sim.diagonal()[:, None]).sum(axis=1)
    return float((rank < k).mean())


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    a = rng.normal(size=(16, 32))
    b = a + 0.5 * rng.normal(size=(16, 32))
    print(ClipLoss()(a, b), nt_xent(a, b), recall_at_k(a, b))
