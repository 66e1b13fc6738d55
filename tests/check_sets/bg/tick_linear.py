"""Order-book ticks, O(1) memory per tick.

Causal linear attention with the feature map phi(x) = elu(x) + 1 (Katharopoulos et al.):

    y_t = phi(q_t) S_t / (phi(q_t) . z_t),   S_t = sum_{s<=t} phi(k_s) v_s^T,  z_t = sum phi(k_s)

There is no softmax and no 1/sqrt(d), that is how this kernel is defined.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0)))


class TickState:
    """Running sums of one instrument."""

    __slots__ = ("S", "z", "seen")

    def __init__(self, d, e):
        self.S = np.zeros((d, e))
        self.z = np.zeros(d)
        self.seen = 0

    def update(self, k, v):
        f = phi(k)
        self.S += np.outer(f, v)
        self.z += f
        self.seen += 1

    def read(self, q):
        f = phi(q)
        return f @ self.S / (f @ self.z)


def linear_attention(q, k, v, state=None):
    """q, k [T, d]; v [T, e] -> [T, e].  Row t uses ticks 0..t and all that is in `state`."""
    state = state or TickState(k.shape[1], v.shape[1])
    out = np.empty((q.shape[0], v.shape[1]))
    for t in range(q.shape[0]):
        state.update(k[t], v[t])
        out[t] = state.read(q[t])
    return out


def features(bid, ask, size):
    mid = (bid + ask) / 2
    ret = np.diff(np.log(mid), prepend=np.log(mid[0]))
    return np.stack([ret * 1e4, (ask - bid) / mid * 1e4, np.log1p(size)], 1)


class TickModel:
    def __init__(self, d=4, seed=0):
        r = np.random.default_rng(seed)
        self.wq, self.wk, self.wv = r.normal(size=(3, 3, d)) * 0.5
        self.w = r.normal(size=d)

    def signal(self, f):
        return linear_attention(f @ self.wq, f @ self.wk, f @ self.wv) @ self.w


if __name__ == "__main__":
    r = np.random.default_rng(5)
    b = 100 + np.cumsum(r.normal(0, 0.01, 50))
    print(TickModel().signal(features(b, b + 0.02, r.poisson(5, 50)))[-3:])
