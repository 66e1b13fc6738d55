"""Attention model for the travelling salesman (Kool et al. 2019), decoder."""
import math
import torch
import torch.nn as nn


def tour_length(xy, tour):
    d = xy.gather(1, tour.unsqueeze(-1).expand(-1, -1, 2))
    return (d - d.roll(-1, dims=1)).norm(dim=-1).sum(1)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = self.n1(x + self.mha(x, x, x, need_weights=False)[0])
        return self.n2(x + self.ff(x))


class PointerDecoder(nn.Module):
    """One glimpse over the open cities, then a single-head pointer.

    The pointer logits are clipped with C * tanh(.) and only afterwards the
    visited cities are taken out.
    """

    def __init__(self, dim, heads=8, clip=10.0):
        super().__init__()
        self.heads, self.dim, self.clip = heads, dim, clip
        self.fixed = nn.Linear(dim, dim, bias=False)
        self.node = nn.Linear(dim, 3 * dim, bias=False)
        self.step = nn.Linear(2 * dim, dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.start = nn.Parameter(torch.empty(2 * dim).uniform_(-1, 1))

    def precompute(self, h):
        gk, gv, lk = self.node(h).chunk(3, dim=-1)
        cut = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return self.fixed(h.mean(1)), cut(gk), cut(gv), lk

    def log_p(self, cache, context, visited):
        """context (B, 2*dim): first and last city; visited (B, N) True = already in the tour"""
        graph, gk, gv, lk = cache
        B = context.size(0)
        q = (graph + self.step(context)).view(B, self.heads, 1, -1)
        compat = q @ gk.transpose(-2, -1) / math.sqrt(gk.size(-1))
        compat = compat.masked_fill(visited[:, None, None, :], -math.inf)
        glimpse = (compat.softmax(-1) @ gv).reshape(B, self.dim)
        u = torch.einsum("bd,bnd->bn", self.out(glimpse), lk) / math.sqrt(self.dim)
        u = self.clip * torch.tanh(u)
        u = u.masked_fill(visited, -math.inf)
        return u.log_softmax(-1)

    def forward(self, h, greedy=True):
        B, N, D = h.shape
        cache = self.precompute(h)
        visited = torch.zeros(B, N, dtype=torch.bool, device=h.device)
        ctx = self.start.expand(B, -1)
        tour, total, first = [], 0.0, None
        for _ in range(N):
            lp = self.log_p(cache, ctx, visited)
            a = lp.argmax(-1) if greedy else torch.multinomial(lp.exp(), 1).squeeze(1)
            total = total + lp.gather(1, a[:, None]).squeeze(1)
            visited = visited.scatter(1, a[:, None], True)
            cur = h[torch.arange(B), a]
            first = cur if first is None else first
            ctx = torch.cat([first, cur], dim=-1)
            tour.append(a)
        return torch.stack(tour, 1), total


class AttentionModel(nn.Module):
    def __init__(self, dim=128, heads=8, layers=3):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(layers))
        self.decoder = PointerDecoder(dim, heads)

    def forward(self, xy, greedy=True):
        h = self.embed(xy)
        for l in self.layers:
            h = l(h)
        tour, logp = self.decoder(h, greedy)
        return tour_length(xy, tour), logp, tour
