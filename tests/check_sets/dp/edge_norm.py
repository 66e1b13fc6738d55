"""Graph transformer convolution on an edge list (after Shi et al. 2021).

For every node t and head
    out_t = W_skip x_t + sum_{e: s -> t} alpha_e (v_s + e_e)
    alpha_e = softmax over all edges that *arrive at t* of q_t . (k_s + e_e) / sqrt(d)

``EdgeConv(in_dim, out_dim, heads, edge_dim)`` (out_dim per head)
    x (N, in_dim); ei (2, E) long, row 0 = source s, row 1 = target t
    ea (E, edge_dim) edge features
returns (N, heads * out_dim); nodes nobody points at keep the skip term only.
"""
import torch
import torch.nn as nn


def group_softmax(z, group, n):
    """softmax of the rows of z (E, H) inside the groups given by group (E,)"""
    idx = group.view(-1, 1).expand_as(z)
    m = torch.full((n, z.size(1)), -torch.inf, dtype=z.dtype, device=z.device)
    m = m.scatter_reduce(0, idx, z, reduce="amax")
    z = torch.exp(z - m.gather(0, idx))
    s = torch.zeros_like(m).scatter_add_(0, idx, z)
    return z / s.gather(0, idx)


class EdgeConv(nn.Module):
    def __init__(self, in_dim, out_dim, heads, edge_dim):
        super().__init__()
        self.H, self.d = heads, out_dim
        self.lin_query = nn.Linear(in_dim, heads * out_dim)
        self.lin_key = nn.Linear(in_dim, heads * out_dim)
        self.lin_value = nn.Linear(in_dim, heads * out_dim)
        self.lin_edge = nn.Linear(edge_dim, heads * out_dim, bias=False)
        self.lin_skip = nn.Linear(in_dim, heads * out_dim)

    def forward(self, x, ei, ea):
        s, t = ei
        N = x.size(0)
        q = self.lin_query(x).view(N, self.H, self.d)
        k = self.lin_key(x).view(N, self.H, self.d)
        v = self.lin_value(x).view(N, self.H, self.d)
        e = self.lin_edge(ea).view(-1, self.H, self.d)
        logit = (q[t] * (k[s] + e)).sum(-1) / self.d ** 0.5
        alpha = group_softmax(logit, s, N)
        out = x.new_zeros(N, self.H, self.d)
        out.index_add_(0, t, alpha.unsqueeze(-1) * (v[s] + e))
        return out.flatten(1) + self.lin_skip(x)
