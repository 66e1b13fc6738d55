"""Two-tower retrieval: in-batch softmax loss with log-Q correction, NumPy, hand-made gradient."""
import numpy as np


class StreamingFrequency:
    """Yi et al. 2019: estimates how often an item shows up in a batch."""

    def __init__(self, buckets=1 << 16, alpha=0.05):
        self.last = np.zeros(buckets)
        self.gap = np.full(buckets, 100.0)
        self.alpha, self.n = alpha, buckets

    def update(self, ids, step):
        h = np.asarray(ids) % self.n
        self.gap[h] = (1 - self.alpha) * self.gap[h] + self.alpha * (step - self.last[h])
        self.last[h] = step

    def log_q(self, ids):
        return -np.log(np.maximum(self.gap[np.asarray(ids) % self.n], 1.0))


def tower(x, weights):
    for i, (w, b) in enumerate(weights):
        x = x @ w + b
        if i < len(weights) - 1:
            x = np.maximum(x, 0)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def in_batch_loss(query, key, item_ids, log_q=None, tau=0.07):
    """query (n, d) users, key (n, d) their clicked items, both unit length.

    Row i's positive is key i; the other rows are negatives, except those that
    are the same item. Returns loss and the gradients to query and key.
    """
    n = len(query)
    logits = query @ key.T / tau
    if log_q is not None:
        logits = logits - log_q[None, :]
    ids = np.asarray(item_ids)
    same = (ids[:, None] == ids[None, :]) & ~np.eye(n, dtype=bool)
    logits = np.where(same, -np.inf, logits)
    logits = logits - logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(n), np.arange(n)]).mean()
    g = (p - np.eye(n)) / n / tau
    return loss, g @ key, g.T @ query


def recall_at(query, key, k=5):
    order = np.argsort(-(query @ key.T), axis=1)[:, :k]
    return (order == np.arange(len(query))[:, None]).any(axis=1).mean()
