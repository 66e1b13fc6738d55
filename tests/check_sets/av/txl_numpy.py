"""Transformer-XL relative attention written out in NumPy (course notes, week 9)."""
import numpy as np


def sinusoid(distances, d):
    freq = 1.0 / 10000 ** (np.arange(0, d, 2) / d)
    ang = np.outer(distances, freq)
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=1)


def rel_shift(x):
    """x[h, i, r] with r counting distances from far to near -> y[h, i, j]."""
    H, q, k = x.shape
    x = np.concatenate([np.zeros((H, q, 1)), x], axis=2)
    return x.reshape(H, k + 1, q)[:, 1:].reshape(H, q, k)


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


class RelAttention:
    """A(i,j) = (q_i + u).k_j + (q_i + v).R_{i-j}, over sqrt(d_head); causal, with memory.

    W: dict with "q", "k", "v", "r" ([d_model, H*d_head]), "o" ([H*d_head, d_model]) and
    the biases "u", "v_bias" ([H, d_head]).
    """

    def __init__(self, W, n_head):
        self.W = W
        self.n_head = n_head
        self.d_head = W["q"].shape[1] // n_head

    def _split(self, x):
        return x.reshape(x.shape[0], self.n_head, self.d_head).transpose(1, 0, 2)

    def __call__(self, h, mem=None):
        """h: [q, d_model]; mem: [m, d_model], the segment before."""
        cat = h if mem is None else np.concatenate([mem, h], axis=0)
        q_len, k_len = h.shape[0], cat.shape[0]
        q, k, v = self._split(h @ self.W["q"]), self._split(cat @ self.W["k"]), self._split(cat @ self.W["v"])
        R = sinusoid(np.arange(k_len - 1, -1, -1), h.shape[1])
        r = self._split(R @ self.W["r"])
        AC = (q + self.W["u"][:, None]) @ k.transpose(0, 2, 1)
        BD = rel_shift((q + self.W["v_bias"][:, None]) @ r.transpose(0, 2, 1))
        score = (AC + BD) / np.sqrt(self.d_head)
        visible = np.tril(np.ones((q_len, k_len), bool), k=k_len - q_len)
        prob = softmax(np.where(visible, score, -np.inf))
        out = (prob @ v).transpose(1, 0, 2).reshape(q_len, -1)
        return out @ self.W["o"]


def init_weights(d_model, n_head, seed=0):
    g = np.random.default_rng(seed)
    W = {n: g.normal(0, d_model ** -0.5, (d_model, d_model)) for n in ("q", "k", "v", "r", "o")}
    W["u"] = g.normal(0, 0.1, (n_head, d_model // n_head))
    W["v_bias"] = g.normal(0, 0.1, (n_head, d_model // n_head))
    return W


def run_segments(layer, x, seg):
    """Walk over a long input in segments, keeping the last one as memory."""
    mem, outs = None, []
    for i in range(0, len(x), seg):
        part = x[i:i + seg]
        outs.append(layer(part, mem))
        mem = part
    return np.concatenate(outs)
