"""Graph attention network on an edge list, numpy only (citation graphs on a laptop)."""
import numpy as np


def glorot(rng, *shape):
    lim = np.sqrt(6.0 / (shape[-2] + shape[-1]))
    return rng.uniform(-lim, lim, shape)


def leaky_relu(x, slope=0.2):
    return np.where(x > 0, x, slope * x)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def segment_max(values, index, n):
    out = np.full((n,) + values.shape[1:], -np.inf)
    np.maximum.at(out, index, values)
    return out


def segment_sum(values, index, n):
    out = np.zeros((n,) + values.shape[1:])
    np.add.at(out, index, values)
    return out


def add_self_loops(edges, n):
    loops = np.tile(np.arange(n), (2, 1))
    return np.concatenate([edges, loops], axis=1)


class GATLayer:
    """alpha_ij = softmax over the in-neighbours j of i of LeakyReLU(a_l . W h_i + a_r . W h_j)

    (the a^T [W h_i || W h_j] of the paper written as two dot products)
    """

    def __init__(self, f_in, f_out, heads=4, concat=True, rng=None):
        rng = rng or np.random.default_rng(0)
        self.W = glorot(rng, f_in, heads * f_out)
        self.a_dst = glorot(rng, heads, f_out)
        self.a_src = glorot(rng, heads, f_out)
        self.b = np.zeros(heads * f_out if concat else f_out)
        self.heads, self.f_out, self.concat = heads, f_out, concat

    def __call__(self, x, edges):
        """x [n, f_in]; edges [2, m] with rows (source, target), self loops included"""
        n = x.shape[0]
        src, dst = edges
        h = (x @ self.W).reshape(n, self.heads, self.f_out)
        e_dst = (h * self.a_dst).sum(-1)
        e_src = (h * self.a_src).sum(-1)
        e = leaky_relu(e_dst[dst] + e_src[src])               # [m, heads]

        e = np.exp(e - segment_max(e, dst, n)[dst])
        alpha = e / segment_sum(e, dst, n)[dst]
        out = segment_sum(alpha[..., None] * h[src], dst, n)
        out = out.reshape(n, -1) if self.concat else out.mean(axis=1)
        return out + self.b


class GAT:
    def __init__(self, f_in, hidden, classes, heads=4):
        rng = np.random.default_rng(11)
        self.l1 = GATLayer(f_in, hidden, heads, True, rng)
        self.l2 = GATLayer(hidden * heads, classes, 1, False, rng)

    def __call__(self, x, edges):
        edges = add_self_loops(edges, x.shape[0])
        return self.l2(elu(self.l1(x, edges)), edges)
