"""AGNN propagation (Thekumparampil et al. 2018) for the citation homework.

    P[i, j] = exp(beta * cos(h_i, h_j)) / sum_{k in N(i)} exp(beta * cos(h_i, h_k))
    h'_i    = sum_{j in N(i)} P[i, j] h_j

N(i) are the sources of the edges that end in i, self loop included. The rows
of P sum to one: a node averages what comes in.

    h     (N, F)
    edges (2, E) long, edges[0] = source j, edges[1] = target i; self loops are
          already in the list, edges are directed
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def edge_softmax(score, group, n):
    """Softmax of `score` (E,) among the edges with the same `group` number."""
    m = score.new_full((n,), float("-inf")).scatter_reduce(0, group, score, "amax")
    e = torch.exp(score - m[group])
    z = score.new_zeros(n).scatter_add(0, group, e)
    return e / z[group]


class AGNNProp(nn.Module):
    def __init__(self, beta=1.0):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(float(beta)))

    def forward(self, h, edges):
        n = h.shape[0]
        j, i = edges[0], edges[1]
        unit = F.normalize(h, dim=-1)
        cos = (unit[i] * unit[j]).sum(-1)
        p = edge_softmax(self.beta * cos, j, n)
        return torch.zeros_like(h).index_add(0, i, p[:, None] * h[j])
