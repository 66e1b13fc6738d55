import torch
from torch import nn


class UpstreamAttention(nn.Module):
    """Transformer layer on a directed supply graph.

    A firm attends to the firms that deliver TO it (its direct suppliers) and to itself,
    and to nobody else.

    x      (N, dim)     firms
    edges  (2, E) long  column (s, r): firm s delivers to firm r
    """

    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.wq, self.wk, self.wv = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.wo = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)

    def forward(self, x, edges):
        n, dim = x.shape
        link = torch.eye(n, dtype=torch.bool, device=x.device)
        link[edges[0], edges[1]] = True
        z = self.ln(x)
        q = self.wq(z).view(n, self.heads, -1) * self.scale
        k = self.wk(z).view(n, self.heads, -1)
        v = self.wv(z).view(n, self.heads, -1)
        s = torch.einsum("ihd,jhd->hij", q, k)
        s = s.masked_fill(~link, float("-inf"))
        w = s.softmax(-1)
        return x + self.wo(torch.einsum("hij,jhd->ihd", w, v).reshape(n, dim))


class DisruptionRisk(nn.Module):
    """Probability that each firm is disrupted next week, from its own state and that of
    its suppliers up to `hops` steps upstream. firms (N, n_features) -> (N,)"""

    def __init__(self, n_features=9, dim=24, hops=2):
        super().__init__()
        self.lift = nn.Linear(n_features, dim)
        self.hops = nn.ModuleList(UpstreamAttention(dim) for _ in range(hops))
        self.risk = nn.Linear(dim, 1)

    def forward(self, firms, edges):
        h = self.lift(firms)
        for hop in self.hops:
            h = hop(h, edges)
        return self.risk(h).squeeze(-1).sigmoid()
