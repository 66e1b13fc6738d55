"""Graph Transformer layer on an edge list (Dwivedi & Bresson), with edge features.

h  (N, D)  node states
ei (2, M)  edge list, ei[0] = sender j, ei[1] = receiver i
ef (M, D)  edge states

Receiver i attends to its senders:  the weights of the edges that arrive at one node
sum to 1 in each head.   score = q_i . (k_j + e_ji) / sqrt(d),  d = D / heads.
A node without incoming edges keeps h + 0.
"""
import torch
import torch.nn as nn


def grouped_softmax(score, group, num_groups):
    """score (M, heads), group (M,)"""
    index = group.unsqueeze(-1).expand(-1, score.size(-1))
    mx = score.new_full((num_groups, score.size(-1)), -1e30)
    mx = mx.scatter_reduce(0, index, score, reduce="amax", include_self=True)
    ex = torch.exp(score - mx.gather(0, index))
    den = score.new_zeros(num_groups, score.size(-1)).scatter_add(0, index, ex)
    return ex / den.gather(0, index)


class EdgeTransformerLayer(nn.Module):
    def __init__(self, D, heads):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.Q = nn.Linear(D, D, bias=False)
        self.K = nn.Linear(D, D, bias=False)
        self.V = nn.Linear(D, D, bias=False)
        self.E = nn.Linear(D, D, bias=False)
        self.O = nn.Linear(D, D)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, h, ei, ef):
        N, D = h.shape
        j, i = ei
        q = self.Q(h).view(N, self.heads, self.d)
        k = self.K(h).view(N, self.heads, self.d)
        v = self.V(h).view(N, self.heads, self.d)
        e = self.E(ef).view(-1, self.heads, self.d)
        score = (q[i] * (k[j] + e)).sum(-1) / self.d ** 0.5
        alpha = grouped_softmax(score, j, N)
        msg = alpha.unsqueeze(-1) * v[j]
        agg = torch.zeros_like(v).index_add_(0, i, msg).reshape(N, D)
        h = self.norm1(h + self.O(agg))
        return self.norm2(h + self.ffn(h))
