"""Graph transformer on sparse edges (Shi et al. 2021, "UniMP") for citation networks and molecules."""
import torch
import torch.nn as nn


def scatter_softmax(score, index, n):
    """Softmax over the entries of `score` [E, H] that have the same `index` [E]."""
    idx = index[:, None].expand_as(score)
    top = score.new_full((n, score.shape[1]), float("-inf")).scatter_reduce(0, idx, score, "amax")
    ex = (score - top[index]).exp()
    den = score.new_zeros(n, score.shape[1]).scatter_add(0, idx, ex)
    return ex / den[index]


class EdgeTransformerConv(nn.Module):
    """x [N, Din]; edge_index [2, E], row 0 sends to row 1; edge_attr [E, De].

    q of the receiver, k and v of the sender, the edge feature is added to both; heads concatenated;
    gated skip connection.  Nodes without incoming edges get only their skip part.
    """

    def __init__(self, d_in, d_out, heads, d_edge, dropout=0.0):
        super().__init__()
        self.h, self.c = heads, d_out // heads
        self.lin_q, self.lin_k, self.lin_v = (nn.Linear(d_in, d_out) for _ in range(3))
        self.lin_e = nn.Linear(d_edge, d_out, bias=False)
        self.skip = nn.Linear(d_in, d_out)
        self.beta = nn.Linear(3 * d_out, 1, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, edge_index, edge_attr):
        snd, rcv = edge_index
        n = x.shape[0]
        q = self.lin_q(x).view(n, self.h, self.c)
        k = self.lin_k(x).view(n, self.h, self.c)
        v = self.lin_v(x).view(n, self.h, self.c)
        e = self.lin_e(edge_attr).view(-1, self.h, self.c)
        s = (q[rcv] * (k[snd] + e)).sum(-1) / self.c ** 0.5
        a = self.drop(scatter_softmax(s, rcv, n))
        msg = (v[snd] + e) * a[..., None]
        out = x.new_zeros(n, self.h, self.c).index_add(0, rcv, msg).flatten(1)
        r = self.skip(x)
        b = torch.sigmoid(self.beta(torch.cat([out, r, out - r], -1)))
        return b * r + (1 - b) * out


class UniMP(nn.Module):
    """Label propagation by masking: known labels are embedded and added to the features."""

    def __init__(self, d_in, n_cls, d=64, heads=4, layers=3, d_edge=8):
        super().__init__()
        self.inp = nn.Linear(d_in, d)
        self.label = nn.Embedding(n_cls + 1, d, padding_idx=n_cls)
        self.convs = nn.ModuleList(EdgeTransformerConv(d, d, heads, d_edge) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.out = nn.Linear(d, n_cls)

    def forward(self, x, edge_index, edge_attr, known):
        h = self.inp(x) + self.label(known)
        for conv, norm in zip(self.convs, self.norms):
            h = torch.relu(norm(conv(h, edge_index, edge_attr)))
        return self.out(h)
