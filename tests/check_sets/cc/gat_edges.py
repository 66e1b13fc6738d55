"""Graph attention layer (GAT) on an edge list, numpy only.

Used for offline scoring of citation graphs, where installing a graph library is not
possible.  Edges are (source, target); every node also gets a loop to itself,
so no node is left without neighbours.  Weights of the edges that enter the same
target sum to one, per head.
"""
import numpy as np


def leaky_relu(x, slope=0.2):
    return np.where(x > 0, x, slope * x)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def segment_max(x, index, n):
    out = np.full((n,) + x.shape[1:], -np.inf, dtype=x.dtype)
    np.maximum.at(out, index, x)
    return out


def segment_sum(x, index, n):
    out = np.zeros((n,) + x.shape[1:], dtype=x.dtype)
    np.add.at(out, index, x)
    return out


def segment_softmax(x, index, n):
    e = np.exp(x - segment_max(x, index, n)[index])
    return e / segment_sum(e, index, n)[index]


class GATLayer:
    def __init__(self, in_dim, out_dim, heads, concat=True, seed=0):
        rng = np.random.default_rng(seed)
        lim = np.sqrt(6.0 / (in_dim + heads * out_dim))
        self.weight = rng.uniform(-lim, lim, (in_dim, heads, out_dim))
        self.att_src = rng.normal(0, 0.5, (heads, out_dim))
        self.att_dst = rng.normal(0, 0.5, (heads, out_dim))
        self.bias = np.zeros(heads * out_dim if concat else out_dim)
        self.concat = concat

    def __call__(self, x, edges, return_weights=False):
        """x: (nodes, in_dim), edges: (2, E) ints -> (nodes, heads*out_dim)"""
        n = x.shape[0]
        src, dst = self._with_loops(edges, n)
        h = np.tensordot(x, self.weight, axes=(1, 0))        # n, heads, out
        s = (h * self.att_src).sum(-1)                       # n, heads
        t = (h * self.att_dst).sum(-1)
        alpha = segment_softmax(leaky_relu(s[src] + t[dst]), dst, n)
        out = segment_sum(alpha[:, :, None] * h[src], dst, n)
        out = out.reshape(n, -1) if self.concat else out.mean(axis=1)
        out = elu(out + self.bias)
        return (out, alpha) if return_weights else out

    @staticmethod
    def _with_loops(edges, n):
        keep = edges[0] != edges[1]
        loops = np.arange(n)
        src = np.concatenate([edges[0][keep], loops])
        dst = np.concatenate([edges[1][keep], loops])
        return src, dst
