"""Reading of excavation logs, find after find (NumPy, field laptop).

Causal linear attention (Katharopoulos et al.): with phi(x) = elu(x) + 1,

    out_t = phi(q_t) S_t / (phi(q_t) . z_t),
    S_t = sum_{s<=t} phi(k_s) v_s',   z_t = sum_{s<=t} phi(k_s)

There is no softmax.  The state (S, z) is kept, so a log can be continued the
next day without reading it all again.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class StrataReader:
    def __init__(self, weights, heads=2):
        self.w = weights
        self.heads = heads
        self.reset()

    def reset(self):
        d = self.w["k"].shape[1] // self.heads
        dv = self.w["v"].shape[1] // self.heads
        self.S = np.zeros((self.heads, d, dv))
        self.z = np.zeros((self.heads, d))

    def read_find(self, x):
        q = phi((x @ self.w["q"]).reshape(self.heads, -1))
        k = phi((x @ self.w["k"]).reshape(self.heads, -1))
        v = (x @ self.w["v"]).reshape(self.heads, -1)
        self.S = self.S + k[:, :, None] * v[:, None, :]
        self.z = self.z + k
        top = np.einsum("hd,hde->he", q, self.S)
        bottom = np.einsum("hd,hd->h", q, self.z)
        return (top / bottom[:, None]).reshape(-1) @ self.w["o"]

    def read(self, log):
        """log: (finds, features) -> (finds, features), continuing from the kept state"""
        return np.stack([x + self.read_find(x) for x in np.asarray(log, dtype=float)])


def example_weights(features=8, width=12, seed=3):
    g = np.random.default_rng(seed)
    return {
        "q": g.normal(size=(features, width)) / features ** 0.5,
        "k": g.normal(size=(features, width)) / features ** 0.5,
        "v": g.normal(size=(features, width)) / features ** 0.5,
        "o": g.normal(size=(width, features)) / width ** 0.5,
    }


if __name__ == "__main__":
    reader = StrataReader(example_weights())
    g = np.random.default_rng(0)
    monday = reader.read(g.normal(size=(5, 8)))
    tuesday = reader.read(g.normal(size=(3, 8)))
    print(monday.shape, tuesday.shape)
