"""GATv2 (Brody, Alon, Yahav 2022) without PyG.

    e(j -> i) = a_h^T LeakyReLU(W_l x_j + W_r x_i)      per head h
    alpha     = softmax of e over all edges that END in i (a self-loop is added to each node)
    x_i'      = concat_h  sum_j alpha_h(j -> i) W_l x_j

x (N, F), edges (2, E) int64 with row 0 = source, row 1 = target; edges holds no self-loops.
Returns (N, heads * out); with return_alpha=True also ((2, E+N) edges, (E+N, heads) weights).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_softmax(e, seg, n):
    """e (E, H), softmax within equal seg."""
    idx = seg[:, None].expand_as(e)
    top = torch.full((n, e.size(1)), float("-inf"), dtype=e.dtype, device=e.device)
    top = top.scatter_reduce(0, idx, e, reduce="amax")
    z = (e - top[seg].detach()).exp()
    tot = torch.zeros(n, e.size(1), dtype=e.dtype, device=e.device).index_add(0, seg, z)
    return z / tot[seg]


class GATv2(nn.Module):
    def __init__(self, f_in, out, heads=4, slope=0.2):
        super().__init__()
        self.h, self.o, self.slope = heads, out, slope
        self.l = nn.Linear(f_in, heads * out)
        self.r = nn.Linear(f_in, heads * out)
        self.a = nn.Parameter(torch.randn(heads, out) * out ** -0.5)

    def forward(self, x, edges, return_alpha=False):
        n = x.size(0)
        loop = torch.arange(n, device=x.device).expand(2, n)
        edges = torch.cat((edges, loop), dim=1)
        src, dst = edges
        xl = self.l(x).view(n, self.h, self.o)
        xr = self.r(x).view(n, self.h, self.o)
        e = (F.leaky_relu(xl[src] + xr[dst], self.slope) * self.a).sum(-1)
        alpha = segment_softmax(e, dst, n)
        y = torch.zeros_like(xl).index_add(0, dst, alpha[..., None] * xl[src]).flatten(1)
        return (y, (edges, alpha)) if return_alpha else y
