"""Object-centric parsing of herbarium sheets (leaf, label, stamp, tape ...) with slots.

Slot Attention after Locatello et al. 2020, inference only.  Slots COMPETE for the
pixels: the softmax runs over the slots, afterwards the weights of each slot are
normalised over the pixels so that the update is a weighted mean.
"""
import numpy as np

EPS = 1e-8


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def layer_norm(x, g, b):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b


def softmax(x, axis):
    x = np.exp(x - x.max(axis=axis, keepdims=True))
    return x / x.sum(axis=axis, keepdims=True)


class GRUCell:
    """PyTorch gate order: reset, update, new."""

    def __init__(self, w_ih, w_hh, b_ih, b_hh):
        self.w_ih, self.w_hh, self.b_ih, self.b_hh = w_ih, w_hh, b_ih, b_hh

    def __call__(self, x, h):
        xr, xz, xn = np.split(x @ self.w_ih.T + self.b_ih, 3, axis=-1)
        hr, hz, hn = np.split(h @ self.w_hh.T + self.b_hh, 3, axis=-1)
        z = sigmoid(xz + hz)
        n = np.tanh(xn + sigmoid(xr + hr) * hn)
        return (1 - z) * n + z * h


class SlotBinder:
    def __init__(self, params, n_iter=3):
        self.p = params
        self.n_iter = n_iter
        self.gru = GRUCell(*(params[k] for k in ("w_ih", "w_hh", "b_ih", "b_hh")))

    def __call__(self, pixels, slots):
        """pixels: [N, D], slots: [K, D] (initial) -> (slots [K, D], masks [N, K])."""
        p = self.p
        x = layer_norm(pixels, p["g_in"], p["b_in"])
        k, v = x @ p["wk"], x @ p["wv"]
        masks = None
        for _ in range(self.n_iter):
            before = slots
            q = layer_norm(slots, p["g_sl"], p["b_sl"]) @ p["wq"]
            logits = k @ q.T / np.sqrt(q.shape[-1])     # [N, K]
            masks = softmax(logits, axis=-1)            # over slots
            w = masks + EPS
            w = w / w.sum(axis=0, keepdims=True)        # over pixels
            slots = self.gru(w.T @ v, before)
        return slots, masks


def init_params(d=16, seed=0):
    r = np.random.default_rng(seed)
    mat = lambda *s: r.normal(size=s) / np.sqrt(d)
    return dict(wq=mat(d, d), wk=mat(d, d), wv=mat(d, d), w_ih=mat(3 * d, d), w_hh=mat(3 * d, d),
                b_ih=np.zeros(3 * d), b_hh=np.zeros(3 * d), g_in=np.ones(d), b_in=np.zeros(d),
                g_sl=np.ones(d), b_sl=np.zeros(d))


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    s, m = SlotBinder(init_params())(rng.normal(size=(30, 16)), rng.normal(size=(4, 16)))
    print(s.shape, m.sum(1)[:3])
