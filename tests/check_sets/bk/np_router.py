"""Token routing of a sparse mixture of experts, numpy twin of the Rust runtime.

Used in the conformance tests: same seeds, same order of operations.
"""
import numpy as np


def stable_softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def top_k(p, k):
    """Indices of the k largest, ties broken by the lower index (like the runtime)."""
    return np.argsort(-p, axis=-1, kind="stable")[..., :k]


class Expert:
    def __init__(self, d, hidden, rng):
        self.w1 = rng.normal(0, d ** -0.5, (d, hidden))
        self.w2 = rng.normal(0, hidden ** -0.5, (hidden, d))

    def __call__(self, x):
        return np.maximum(x @ self.w1, 0.0) ** 2 @ self.w2


class SparseMoE:
    """y_t = sum_{e in topk} w_te * expert_e(x_t), weights renormalised over the top k.

    keys [E, d] are the expert embeddings; the score of a token (query) and an expert
    (key) is their inner product over a temperature.
    """

    def __init__(self, d, n_experts, hidden, k=2, temperature=1.0, capacity=None, seed=0):
        rng = np.random.default_rng(seed)
        self.k, self.temperature, self.capacity = k, temperature, capacity
        self.keys = rng.normal(0, d ** -0.5, (n_experts, d))
        self.experts = [Expert(d, hidden, rng) for _ in range(n_experts)]

    def route(self, queries):
        p = stable_softmax(queries @ self.keys.T / self.temperature)
        idx = top_k(p, self.k)
        w = np.take_along_axis(p, idx, -1)
        return idx, w / w.sum(-1, keepdims=True), p

    def balance_loss(self, p, idx):
        n, e = p.shape
        load = np.bincount(idx.ravel(), minlength=e) / idx.size
        return e * float(load @ p.mean(0))

    def __call__(self, x):
        idx, w, p = self.route(x)
        y = np.zeros_like(x)
        for e, expert in enumerate(self.experts):
            tok, slot = np.nonzero(idx == e)
            if self.capacity is not None:
                tok, slot = tok[: self.capacity], slot[: self.capacity]
            if tok.size:
                y[tok] += w[tok, slot][:, None] * expert(x[tok])
        return y, self.balance_loss(p, idx)


def main():
    x = np.random.default_rng(1).normal(size=(10, 16))
    y, aux = SparseMoE(16, 4, 32)(x)
    print(y.shape, round(aux, 3))


if __name__ == "__main__":
    main()
