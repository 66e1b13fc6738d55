"""Neural combinatorial optimisation: pointer decoder with one glimpse.

Bello et al. (2016).  The pointer logits are clipped to [-C, C] by C * tanh,
and only afterwards are visited cities taken out.
"""
import torch
import torch.nn as nn


class Pointer(nn.Module):
    """u_i = v . tanh(W_ref r_i + W_q q)"""

    def __init__(self, dim, clip=None):
        super().__init__()
        self.W_ref = nn.Linear(dim, dim)
        self.W_q = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-dim ** -0.5, dim ** -0.5))
        self.clip = clip

    def forward(self, q, ref, visited):
        u = torch.tanh(self.W_ref(ref) + self.W_q(q)[:, None, :]) @ self.v
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        return u.masked_fill(visited, float("-inf"))


class PointerDecoder(nn.Module):
    """Greedy tour construction.

    coords [B, N, 2] -> tour [B, N] (a permutation), log-likelihood [B]
    """

    def __init__(self, dim=24, clip=10.0):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.cell = nn.GRUCell(dim, dim)
        self.start = nn.Parameter(torch.randn(dim) * 0.1)
        self.glimpse = Pointer(dim)
        self.pointer = Pointer(dim, clip)

    def forward(self, coords):
        b, n, _ = coords.shape
        x = self.embed(coords)
        ref, h = self.encoder(x)
        h = h[0]
        inp = self.start.expand(b, -1)
        visited = torch.zeros(b, n, dtype=torch.bool, device=coords.device)
        rows = torch.arange(b, device=coords.device)
        tour, loglik = [], coords.new_zeros(b)
        for _ in range(n):
            h = self.cell(inp, h)
            g = torch.softmax(self.glimpse(h, ref, visited), dim=-1)
            q = torch.einsum("bn,bnd->bd", g, ref)
            logp = torch.log_softmax(self.pointer(q, ref, visited), dim=-1)
            city = logp.argmax(-1)
            loglik = loglik + logp[rows, city]
            visited = visited.scatter(1, city[:, None], True)
            inp = x[rows, city]
            tour.append(city)
        return torch.stack(tour, 1), loglik


def tour_length(coords, tour):
    path = coords.gather(1, tour[..., None].expand(-1, -1, 2))
    return (path - path.roll(-1, dims=1)).norm(dim=-1).sum(-1)
