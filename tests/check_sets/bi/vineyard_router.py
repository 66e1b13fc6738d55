"""Yield model of a wine estate with a mixture of experts.

Each plot-day is sent to the two best of E experts (frost, drought, mildew ...).
The router compares the plot's query with one key per expert.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

CLIMATS = ["Les Perrières", "Clos du Four", "La Garenne", "En Caradeux"]


class CellarRouter(nn.Module):
    """Top-2 routing with renormalised gates and the usual balance loss.

    x (B, T, D) -> (B, T, D), aux loss
    """

    def __init__(self, dim, n_experts, hidden, key_dim=16, top=2):
        super().__init__()
        self.top = top
        self.query = nn.Linear(dim, key_dim)
        self.keys = nn.Parameter(torch.randn(n_experts, key_dim))
        self.w1 = nn.Parameter(torch.randn(n_experts, dim, hidden) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(n_experts, hidden, dim) * hidden ** -0.5)
        self.scale = key_dim ** -0.5

    def route(self, x):
        probs = F.softmax(self.query(x) @ self.keys.T * self.scale, dim=-1)
        gate, idx = probs.topk(self.top, dim=-1)
        return probs, gate / gate.sum(-1, keepdim=True), idx

    def expert(self, e, x):
        return F.silu(x @ self.w1[e]) @ self.w2[e]

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs, gate, idx = self.route(flat)
        out = torch.zeros_like(flat)
        for e in range(len(self.keys)):
            row, slot = (idx == e).nonzero(as_tuple=True)
            if row.numel():
                out.index_add_(0, row, gate[row, slot, None] * self.expert(e, flat[row]))
        load = F.one_hot(idx[:, 0], len(self.keys)).float().mean(0)
        aux = len(self.keys) * (load * probs.mean(0)).sum()
        return out.view_as(x), aux


class YieldModel(nn.Module):
    def __init__(self, feats=14, dim=32, experts=6):
        super().__init__()
        self.inp = nn.Linear(feats, dim)
        self.plot = nn.Embedding(len(CLIMATS), dim)
        self.moe = CellarRouter(dim, experts, 64)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, 1)

    def forward(self, weather, plot):
        h = self.inp(weather) + self.plot(plot)[:, None]
        y, aux = self.moe(h)
        z, _ = self.rnn(h + y)
        return F.softplus(self.out(z[:, -1])), aux


if __name__ == "__main__":
    m = YieldModel()
    print(m(torch.randn(4, 20, 14), torch.arange(4)))
