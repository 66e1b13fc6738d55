"""Heterogeneous graph transformer layer (Hu et al. 2020), no PyG.

Nodes have a type (author, paper, venue ...), edges have a relation.
    x         (N, D) float
    node_type (N,) long
    edge      (2, E) long   row 0: source s, row 1: target t
    relation  (E,) long
    returns   (N, D)

Per head:  att(e) = (K_type(s) x_s) W_rel . (Q_type(t) x_t) * mu_rel / sqrt(d)
           weights: softmax over all edges that arrive at t, whatever relation
           msg(e) = (V_type(s) x_s) M_rel
Then out_t = A_type(t)(gelu(sum_e w_e msg_e)) + x_t. Nodes without incoming
edges get A(gelu(0)) + x_t.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


class HGTLayer(nn.Module):
    def __init__(self, D=16, heads=2, n_types=3, n_rel=4):
        super().__init__()
        d = D // heads
        self.heads, self.d = heads, d
        mk = lambda: nn.ModuleList(nn.Linear(D, D) for _ in range(n_types))
        self.k, self.q, self.v, self.a = mk(), mk(), mk(), mk()
        self.w_att = nn.Parameter(torch.randn(n_rel, heads, d, d) / math.sqrt(d))
        self.w_msg = nn.Parameter(torch.randn(n_rel, heads, d, d) / math.sqrt(d))
        self.mu = nn.Parameter(torch.ones(n_rel, heads))

    @staticmethod
    def by_type(layers, x, node_type):
        out = torch.zeros_like(x)
        for t, layer in enumerate(layers):
            rows = (node_type == t).nonzero(as_tuple=True)[0]
            out = out.index_copy(0, rows, layer(x[rows]))
        return out

    def forward(self, x, node_type, edge, relation):
        N, D = x.shape
        s, t = edge
        k = self.by_type(self.k, x, node_type).view(N, self.heads, self.d)
        q = self.by_type(self.q, x, node_type).view(N, self.heads, self.d)
        v = self.by_type(self.v, x, node_type).view(N, self.heads, self.d)

        k_e = torch.einsum("ehd,ehdf->ehf", k[s], self.w_att[relation])
        m_e = torch.einsum("ehd,ehdf->ehf", v[s], self.w_msg[relation])
        score = (k_e * q[t]).sum(-1) * self.mu[relation] / math.sqrt(self.d)

        idx = t[:, None].expand_as(score)
        high = torch.full((N, self.heads), float("-inf"), dtype=x.dtype)
        high = high.scatter_reduce(0, idx, score, reduce="amax")
        e = (score - high[t].detach()).exp()
        total = x.new_zeros(N, self.heads).index_add(0, t, e)
        w = e / total[t]

        agg = x.new_zeros(N, self.heads, self.d).index_add(0, t, w.unsqueeze(-1) * m_e)
        return self.by_type(self.a, F.gelu(agg.reshape(N, D)), node_type) + x
