"""Graph attention layer on an edge list, for people without PyG.

edge_index[0] = source node j, edge_index[1] = target node i  (message j -> i)
"""
import numpy as np


def leaky_relu(x, a=0.2):
    return np.where(x > 0, x, a * x)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def scatter_max(src, idx, n):
    out = np.full((n,) + src.shape[1:], -np.inf, dtype=src.dtype)
    np.maximum.at(out, idx, src)
    return out


def scatter_add(src, idx, n):
    out = np.zeros((n,) + src.shape[1:], dtype=src.dtype)
    np.add.at(out, idx, src)
    return out


def segment_softmax(e, idx, n):
    """softmax of e (E, H) within the edges that share a target"""
    top = scatter_max(e, idx, n)
    ex = np.exp(e - top[idx])
    return ex / scatter_add(ex, idx, n)[idx]


def drop_self_loops(edge_index):
    keep = edge_index[0] != edge_index[1]
    return edge_index[:, keep]


def add_loops(edge_index, n):
    loops = np.tile(np.arange(n), (2, 1))
    return np.concatenate([drop_self_loops(edge_index), loops], axis=1)


class GATConv:
    def __init__(self, in_ch, out_ch, heads=4, concat=True, slope=0.2, self_loops=True, bias=True, seed=0):
        rng = np.random.RandomState(seed)
        lim = lambda a, b: np.sqrt(6.0 / (a + b))
        self.H, self.F = heads, out_ch
        self.concat, self.slope, self.self_loops = concat, slope, self_loops
        self.W = rng.uniform(-1, 1, (in_ch, heads * out_ch)) * lim(in_ch, heads * out_ch)
        self.a_src = rng.uniform(-1, 1, (heads, out_ch)) * lim(out_ch, 1)
        self.a_dst = rng.uniform(-1, 1, (heads, out_ch)) * lim(out_ch, 1)
        self.b = np.zeros(heads * out_ch if concat else out_ch) if bias else None

    def __call__(self, x, edge_index, return_attention=False):
        """x (N, in_ch), edge_index (2, E) -> (N, H*F) or (N, F)"""
        n = x.shape[0]
        if self.self_loops:
            edge_index = add_loops(edge_index, n)
        j, i = edge_index
        h = (x @ self.W).reshape(n, self.H, self.F)
        s = np.einsum('nhf,hf->nh', h, self.a_src)
        t = np.einsum('nhf,hf->nh', h, self.a_dst)
        alpha = segment_softmax(leaky_relu(s[j] + t[i], self.slope), i, n)
        out = scatter_add(alpha[:, :, None] * h[j], i, n)
        out = out.reshape(n, -1) if self.concat else out.mean(axis=1)
        if self.b is not None:
            out = out + self.b
        if return_attention:
            return out, (edge_index, alpha)
        return out


class GAT:
    """two layers, citation-network sizes"""

    def __init__(self, in_ch, hid=8, classes=3, heads=4, seed=0):
        self.l1 = GATConv(in_ch, hid, heads, seed=seed)
        self.l2 = GATConv(hid * heads, classes, heads=2, concat=False, seed=seed + 1)

    def __call__(self, x, edge_index):
        z = self.l2(elu(self.l1(x, edge_index)), edge_index)
        z = z - z.max(1, keepdims=True)
        return z - np.log(np.exp(z).sum(1, keepdims=True))
