"""Symmetric InfoNCE between audio clips and captions (CLAP-like), with the gradient by hand."""
import numpy as np


def l2norm(x, axis=-1, eps=1e-12):
    n = np.sqrt(np.sum(x * x, axis=axis, keepdims=True))
    return x / np.maximum(n, eps), n


def log_softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


class ContrastiveLoss:
    """
    query  [N, d]  audio embeddings
    key    [N, d]  caption embeddings; row i belongs to row i
    group  [N]     optional clip id: captions of the same clip are no negatives for each other

    loss = 1/2 (CE over rows + CE over columns) of  exp(log_tau) * q k^T
    """

    def __init__(self, log_tau=np.log(1 / 0.07), cap=100.0):
        self.log_tau, self.cap = log_tau, cap

    def logits(self, q, k):
        t = min(np.exp(self.log_tau), self.cap)
        return t * (q @ k.T), t

    def __call__(self, query, key, group=None):
        q, qn = l2norm(query)
        k, kn = l2norm(key)
        s, t = self.logits(q, k)
        n = len(s)
        if group is not None:
            same = (group[:, None] == group[None, :]) & ~np.eye(n, dtype=bool)
            s = np.where(same, -np.inf, s)
        la, lc = log_softmax(s, 1), log_softmax(s, 0)
        d = np.arange(n)
        loss = -0.5 * (la[d, d].mean() + lc[d, d].mean())
        # gradient of both halves: (softmax - identity) / 2N
        g = (np.exp(la) + np.exp(lc) - 2 * np.eye(n)) / (2 * n)
        gq, gk = t * g @ k, t * g.T @ q
        gq = (gq - q * (gq * q).sum(-1, keepdims=True)) / qn
        gk = (gk - k * (gk * k).sum(-1, keepdims=True)) / kn
        return loss, gq, gk


class MomentumQueue:
    """MoCo-like queue of old caption embeddings as additional negatives"""

    def __init__(self, size, d, rng):
        self.buf = l2norm(rng.normal(size=(size, d)))[0]
        self.ptr = 0

    def push(self, k):
        for row in l2norm(k)[0]:
            self.buf[self.ptr] = row
            self.ptr = (self.ptr + 1) % len(self.buf)

    def loss(self, query, key, tau=0.07):
        q, k = l2norm(query)[0], l2norm(key)[0]
        pos = (q * k).sum(-1, keepdims=True)
        s = np.concatenate([pos, q @ self.buf.T], 1) / tau
        return -log_softmax(s, 1)[:, 0].mean()


def recall_at(q, k, n=5):
    s = l2norm(q)[0] @ l2norm(k)[0].T
    rank = (s > np.diag(s)[:, None]).sum(1)
    return (rank < n).mean()


def fit(steps=40, lr=0.5, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(32, 6))
    A, B = rng.normal(size=(6, 20)), rng.normal(size=(6, 15))
    audio, text = z @ A, z @ B
    Wa, Wt = rng.normal(size=(20, 8)) * 0.2, rng.normal(size=(15, 8)) * 0.2
    f = ContrastiveLoss()
    for i in range(steps):
        loss, ga, gt = f(audio @ Wa, text @ Wt)
        Wa -= lr * audio.T @ ga
        Wt -= lr * text.T @ gt
        if i % 10 == 0:
            print(i, round(float(loss), 3), recall_at(audio @ Wa, text @ Wt))
    return Wa, Wt


if __name__ == "__main__":
    fit()
