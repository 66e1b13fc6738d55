"""Dense attention on a road graph, numpy only (runs on the roadside unit)."""
import numpy as np


def stable_softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


class RoadAttention:
    """
    Junctions average their neighbours.

    speeds : (T, N, F)  T time slots, N junctions, F features
    adj    : (N, N) 0/1, adj[i, j] = 1 if junction i may read junction j;
             the diagonal is always 1
    result : (T, N, units); the weights of a junction over its neighbours sum to one.
    """

    def __init__(self, F=6, units=8, seed=0):
        rng = np.random.default_rng(seed)
        init = lambda: rng.normal(scale=F ** -0.5, size=(F, units))
        self.Wq, self.Wk, self.Wv = init(), init(), init()
        self.units = units

    def weights(self, speeds, adj):
        q = speeds @ self.Wq
        k = speeds @ self.Wk
        z = np.einsum("tiu,tju->tij", q, k) / np.sqrt(self.units)
        return stable_softmax(z) * adj

    def __call__(self, speeds, adj):
        speeds = np.asarray(speeds, dtype=np.float64)
        adj = np.asarray(adj, dtype=np.float64)
        a = self.weights(speeds, adj)
        mixed = np.einsum("tij,tju->tiu", a, speeds @ self.Wv)
        return np.maximum(mixed, 0.1 * mixed)


if __name__ == "__main__":
    ring = np.eye(5) + np.roll(np.eye(5), 1, 1)
    print(RoadAttention()(np.random.rand(3, 5, 6), ring).shape)
