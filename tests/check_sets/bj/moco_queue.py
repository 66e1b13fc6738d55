"""Contrastive loss with a queue of negatives (MoCo), plain NumPy.

Used to check the numbers of the distributed implementation.
"""
import numpy as np


def l2_normalize(x, axis=-1, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), eps)


def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


class KeyQueue:
    """FIFO of the last `size` key embeddings."""

    def __init__(self, size, dim, seed=0):
        self.keys = l2_normalize(np.random.default_rng(seed).normal(size=(size, dim)))
        self.ptr = 0

    def enqueue(self, keys):
        idx = (self.ptr + np.arange(len(keys))) % len(self.keys)
        self.keys[idx] = keys
        self.ptr = int((self.ptr + len(keys)) % len(self.keys))


class MomentumContrast:
    """loss(q, k): q, k [B, D]; positives on the same row, negatives queued."""

    def __init__(self, dim, queue=256, temperature=0.07, momentum=0.999):
        self.T = temperature
        self.m = momentum
        self.queue = KeyQueue(queue, dim)

    def logits(self, q, k):
        q, k = l2_normalize(q), l2_normalize(k)
        pos = (q * k).sum(axis=1, keepdims=True)
        neg = q @ self.queue.keys.T
        return np.concatenate([pos, neg], axis=1) / self.T

    def loss(self, q, k, update=True):
        value = -log_softmax(self.logits(q, k))[:, 0].mean()
        if update:
            self.queue.enqueue(l2_normalize(k))
        return float(value)

    def accuracy(self, q, k):
        return float((self.logits(q, k).argmax(axis=1) == 0).mean())

    def momentum_update(self, online, target):
        for name, w in online.items():
            target[name] = self.m * target[name] + (1.0 - self.m) * w
        return target


def train_toy(steps=10, dim=16, batch=8, seed=0):
    rng = np.random.default_rng(seed)
    moco, out = MomentumContrast(dim, queue=32), []
    for _ in range(steps):
        base = rng.normal(size=(batch, dim))
        out.append(moco.loss(base, base + 0.1 * rng.normal(size=base.shape)))
    return out


if __name__ == "__main__":
    print(train_toy())
