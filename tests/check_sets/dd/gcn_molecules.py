import numpy as np


class MoleculeGCN:
    """Two graph convolutions and a mean over the atoms (Kipf & Welling)."""

    def __init__(self, fin, hidden, fout, seed=1):
        rng = np.random.default_rng(seed)
        self.W1 = rng.normal(0, fin ** -0.5, (fin, hidden))
        self.W2 = rng.normal(0, hidden ** -0.5, (hidden, fout))

    @staticmethod
    def propagate(adj):
        a = adj + np.eye(adj.shape[-1])
        deg = a.sum(-1) ** -0.5
        return deg[..., :, None] * a * deg[..., None, :]

    def __call__(self, x, adj, present):
        """x (B, N, fin), adj (B, N, N) 0/1, present (B, N) 0/1, at least one atom each -> (B, fout)"""
        p = self.propagate(adj)
        h = np.maximum(p @ x @ self.W1, 0)
        h = p @ h @ self.W2
        return (h * present[..., None]).sum(1) / present.sum(1, keepdims=True)
