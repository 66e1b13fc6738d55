"""Graph attention network (Velickovic et al.) on an edge list, NumPy, for the course on Cora.

edges: int array [2, E], row 0 = source, row 1 = destination.  Every node is given a self loop,
so each node has at least one incoming edge.
"""
import numpy as np


def add_self_loops(edges, n):
    keep = edges[0] != edges[1]
    loop = np.arange(n)
    return np.concatenate([edges[:, keep], np.stack([loop, loop])], axis=1)


def leaky_relu(x, slope=0.2):
    return np.where(x > 0, x, slope * x)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def segment_sum(x, idx, n):
    out = np.zeros((n,) + x.shape[1:], dtype=x.dtype)
    np.add.at(out, idx, x)
    return out


def segment_max(x, idx, n):
    out = np.full((n,) + x.shape[1:], -np.inf, dtype=x.dtype)
    np.maximum.at(out, idx, x)
    return out


class GATConv:
    def __init__(self, n_in, n_out, heads, rng, concat=True):
        lim = np.sqrt(6.0 / (n_in + n_out))
        self.W = rng.uniform(-lim, lim, (n_in, heads, n_out))
        self.a_src = rng.normal(0, 0.3, (heads, n_out))
        self.a_dst = rng.normal(0, 0.3, (heads, n_out))
        self.concat = concat

    def forward(self, x, edges):
        n = len(x)
        src, dst = add_self_loops(edges, n)
        h = np.einsum("ni,iho->nho", x, self.W)
        # a^T [W h_i || W h_j] falls apart into a part of i and a part of j
        s = (h * self.a_src).sum(-1)
        d = (h * self.a_dst).sum(-1)
        e = leaky_relu(s[src] + d[dst])                       # [E, heads]
        e = np.exp(e - segment_max(e, dst, n)[dst])
        alpha = e / segment_sum(e, dst, n)[dst]               # sums to 1 over edges into a node
        out = segment_sum(alpha[..., None] * h[src], dst, n)  # [n, heads, n_out]
        return out.reshape(n, -1) if self.concat else out.mean(1)


class GAT:
    def __init__(self, n_in, n_hid, n_cls, heads=8, seed=0):
        rng = np.random.default_rng(seed)
        self.c1 = GATConv(n_in, n_hid, heads, rng)
        self.c2 = GATConv(n_hid * heads, n_cls, 1, rng, concat=False)

    def predict(self, x, edges):
        z = self.c2.forward(elu(self.c1.forward(x, edges)), edges)
        return z.argmax(-1)
