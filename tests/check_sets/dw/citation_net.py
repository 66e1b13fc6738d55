"""Two graph attention layers for paper classification (student project).

edges is (2, E): row 0 = paper that sends information, row 1 = paper that receives it.  All
self loops must already be in the list.  For a receiving paper i the coefficients over the
papers j that send to it are positive and sum to one:

    a_ij = exp(s_ij) / sum over senders j' of i of exp(s_ij'),   h_i = sum_j a_ij W x_j

with s_ij = leaky_relu(u . W x_i + w . W x_j).  x (N, f) -> class logits (N, n_class).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def group_softmax(score, group, n_groups):
    """stable softmax of score (E,) inside groups"""
    big = torch.full((n_groups,), float("-inf"), dtype=score.dtype)
    big = big.scatter_reduce(0, group, score, "amax")
    ex = torch.exp(score - big[group])
    tot = torch.zeros(n_groups, dtype=score.dtype).scatter_add(0, group, ex)
    return ex / tot[group]


class AttnLayer(nn.Module):
    def __init__(self, f_in, f_out):
        super().__init__()
        self.W = nn.Linear(f_in, f_out, bias=False)
        self.u = nn.Linear(f_out, 1, bias=False)
        self.w = nn.Linear(f_out, 1, bias=False)

    def forward(self, x, edges):
        sender, receiver = edges
        h = self.W(x)
        s = F.leaky_relu(self.u(h)[receiver] + self.w(h)[sender], 0.2).squeeze(-1)
        a = group_softmax(s, sender, x.size(0))
        out = torch.zeros_like(h)
        return out.index_add(0, receiver, a[:, None] * h[sender])


class CitationNet(nn.Module):
    def __init__(self, f_in, hidden, n_class):
        super().__init__()
        self.l1 = AttnLayer(f_in, hidden)
        self.l2 = AttnLayer(hidden, n_class)

    def forward(self, x, edges):
        return self.l2(F.elu(self.l1(x, edges)), edges)
