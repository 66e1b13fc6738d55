"""Graph attention network (Velickovic et al. 2018) without any library but numpy.

Written while reading the paper; dense adjacency, meant for graphs of a few
hundred nodes (Cora fits).  `adj[i, j] != 0` is an edge along which node i
receives from node j; self-loops are added.  Hidden layers concatenate their
heads and use ELU, the last layer averages the heads.
"""
import numpy as np


def leaky_relu(x, slope=0.2):
    return np.where(x > 0, x, slope * x)


def elu(x):
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


class GATLayer:
    def __init__(self, f_in, f_out, heads, concat=True, seed=0):
        rng = np.random.default_rng(seed)
        lim = np.sqrt(6 / (f_in + f_out))
        self.W = rng.uniform(-lim, lim, (heads, f_in, f_out))
        self.a_dst = rng.normal(0, 0.5, (heads, f_out))   # left half of the paper's a
        self.a_src = rng.normal(0, 0.5, (heads, f_out))   # right half
        self.concat = concat

    def coefficients(self, z, adj):
        """z: [heads, N, f_out] -> alpha [heads, N, N], rows sum to one"""
        to = np.einsum("hnf,hf->hn", z, self.a_dst)
        frm = np.einsum("hnf,hf->hn", z, self.a_src)
        e = leaky_relu(to[:, :, None] + frm[:, None, :])
        neighbour = (adj != 0) | np.eye(len(adj), dtype=bool)
        e = np.where(neighbour, e, -np.inf)
        e = np.exp(e - e.max(axis=2, keepdims=True))
        return e / e.sum(axis=2, keepdims=True)

    def __call__(self, x, adj):
        z = np.einsum("nf,hfo->hno", x, self.W)
        out = self.coefficients(z, adj) @ z
        if self.concat:
            return elu(out).transpose(1, 0, 2).reshape(len(x), -1)
        return out.mean(axis=0)


class GAT:
    def __init__(self, f_in, hidden=8, classes=7, heads=4):
        self.layers = [
            GATLayer(f_in, hidden, heads, concat=True, seed=1),
            GATLayer(hidden * heads, classes, 1, concat=False, seed=2),
        ]

    def forward(self, x, adj):
        for layer in self.layers:
            x = layer(x, adj)
        return x
