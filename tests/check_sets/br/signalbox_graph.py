# -*- coding: utf-8 -*-
"""Graph transformer over railway interlockings.

Nodes are signals, points and track circuits; the label is whether a route request
will lock.  The encoder is of the Graphormer kind: full attention between nodes with
a learned bias from the hop distance, a bias averaged along the shortest path from the
types of its edges, and one extra "signaller" node in front that is joined to all.

Tensors inside are time-major, [N, B, C], as in the toolkit this grew out of.
"""
import torch
import torch.nn as nn

FAR = 20           # hop distances at and above FAR share one embedding row
NO_PATH = FAR + 1


def all_pairs_hops(adj):
    """Floyd-Warshall on a boolean adjacency [n, n]; NO_PATH where unreachable."""
    n = adj.shape[0]
    d = torch.full((n, n), 10 ** 6)
    d[adj] = 1
    d.fill_diagonal_(0)
    for m in range(n):
        d = torch.minimum(d, d[:, m:m + 1] + d[m:m + 1, :])
    return torch.where(d >= 10 ** 6, torch.tensor(NO_PATH), d.clamp(max=FAR))


class RouteBias(nn.Module):
    def __init__(self, heads, edge_types=8):
        super().__init__()
        self.hop = nn.Embedding(NO_PATH + 1, heads)
        self.edge = nn.Embedding(edge_types + 1, heads, padding_idx=0)
        self.signaller = nn.Parameter(torch.zeros(heads))

    def forward(self, hops, path_edges):
        """hops [B, n, n]; path_edges [B, n, n, P], 0 = no edge -> [B, heads, n + 1, n + 1]"""
        b, n, _ = hops.shape
        length = (path_edges > 0).sum(-1, keepdim=True).clamp(min=1)
        inner = self.hop(hops) + self.edge(path_edges).sum(-2) / length
        out = inner.new_zeros(b, n + 1, n + 1, inner.shape[-1])
        out[:, 1:, 1:] = inner
        out[:, 1:, 0] = self.signaller
        out[:, 0, :] = self.signaller
        return out.permute(0, 3, 1, 2)


class SignalBoxAttention(nn.Module):
    """
    Inputs:
        x                 [N, B, C]
        attn_bias         [B, heads, N, N], row = asking node, column = asked node
        key_padding_mask  [B, N], True = filler node
    Output: [N, B, C]
    """

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.scaling = self.hd ** -0.5
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, dim) for _ in range(3))
        self.out_proj = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, attn_bias=None, key_padding_mask=None):
        N, B, C = x.shape
        fold = lambda t: t.contiguous().view(N, B * self.heads, self.hd).transpose(0, 1)
        q = fold(self.q_proj(x) * self.scaling)
        k, v = fold(self.k_proj(x)), fold(self.v_proj(x))

        w = torch.bmm(q, k.transpose(1, 2))
        if attn_bias is not None:
            w = w + attn_bias.reshape(B * self.heads, N, N)
        if key_padding_mask is not None:
            w = w.view(B, self.heads, N, N)
            w = w.masked_fill(key_padding_mask[:, None, None], float("-inf"))
            w = w.view(B * self.heads, N, N)
        p = self.dropout(w.float().softmax(dim=-1).type_as(w))
        y = torch.bmm(p, v).transpose(0, 1).reshape(N, B, C)
        return self.out_proj(y)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = SignalBoxAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, x, bias, pad):
        x = x + self.att(self.ln1(x), bias, pad)
        return x + self.ff(self.ln2(x))


class RouteLocks(nn.Module):
    def __init__(self, kinds=12, dim=64, heads=4, depth=3):
        super().__init__()
        self.kind = nn.Embedding(kinds + 1, dim, padding_idx=0)
        self.deg = nn.Embedding(16, dim)
        self.signaller = nn.Parameter(torch.randn(dim) * 0.02)
        self.bias = RouteBias(heads)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, kind, degree, hops, path_edges):
        x = self.kind(kind) + self.deg(degree.clamp(max=15))
        x = torch.cat([self.signaller.expand(x.shape[0], 1, -1), x], 1).transpose(0, 1)
        pad = torch.cat([torch.zeros_like(kind[:, :1], dtype=torch.bool), kind == 0], 1)
        bias = self.bias(hops, path_edges)
        for l in self.layers:
            x = l(x, bias, pad)
        return self.head(x[0]).squeeze(-1)
