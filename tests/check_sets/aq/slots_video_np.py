"""Slot tracker for the conveyor camera: frozen weights, NumPy only. Slots of the last frame start the next one."""
import numpy as np


def ln(x, g, b, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * g + b


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def gru(w, x, h):
    """torch gate order r, z, n"""
    gi = x @ w["gru_ih"].T + w["gru_bi"]
    gh = h @ w["gru_hh"].T + w["gru_bh"]
    ir, iz, inn = np.split(gi, 3, -1)
    hr, hz, hn = np.split(gh, 3, -1)
    r, z = sigmoid(ir + hr), sigmoid(iz + hz)
    return (1 - z) * np.tanh(inn + r * hn) + z * h


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def slot_read(w, slots, feats):
    """Slot attention of Locatello et al.: slots [K, D], feats [N, D].

    The softmax runs over the K slots, so that the slots compete for every
    feature. A slot is then updated by the weighted mean of the values.
    """
    q = ln(slots, w["sn_g"], w["sn_b"]) @ w["q"]
    k = feats @ w["k"]
    v = feats @ w["v"]
    logits = k @ q.T / np.sqrt(q.shape[-1])
    share = softmax(logits, axis=1) + 1e-8
    return share.T @ v, share


class SlotTracker:
    def __init__(self, weights, n_slots, rounds=2, seed=0):
        self.w, self.rounds = weights, rounds
        d = weights["q"].shape[0]
        self.slots = np.random.default_rng(seed).normal(size=(n_slots, d)) * weights["sigma"] + weights["mu"]

    def step(self, feats):
        x = ln(feats, self.w["fn_g"], self.w["fn_b"])
        s = self.slots
        for _ in range(self.rounds):
            upd, share = slot_read(self.w, s, x)
            s = gru(self.w, upd, s)
        self.slots = s
        return s, share

    def boxes(self, share, h, w, level=0.5):
        """x0 y0 x1 y1 of each slot, None when the slot owns nothing"""
        out = []
        own = share.reshape(h, w, -1)
        for i in range(own.shape[-1]):
            ys, xs = np.nonzero(own[..., i] > level)
            out.append((xs.min(), ys.min(), xs.max(), ys.max()) if len(ys) else None)
        return out
