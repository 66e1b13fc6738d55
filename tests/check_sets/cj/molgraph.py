"""Graphormer-like encoder for solubility (ESOL). SPD = shortest path distance."""
import torch
import torch.nn as nn


class GraphLayer(nn.Module):
    def __init__(self, dim, nh):
        super().__init__()
        self.nh = nh
        self.dh = dim // nh
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.l1 = nn.LayerNorm(dim)
        self.l2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, h, pair):
        # pair: (B, nh, N, N), SPD bias with -inf in the columns of missing atoms
        B, N, D = h.shape
        z = self.l1(h)
        q = self.wq(z).view(B, N, self.nh, self.dh)
        k = self.wk(z).view(B, N, self.nh, self.dh)
        v = self.wv(z).view(B, N, self.nh, self.dh)
        # key axis first here: (B, nh, key, query), hence the softmax over -2
        a = torch.einsum("bkhd,bqhd->bhkq", k, q) * self.dh**-0.5
        a = torch.softmax(a + pair.transpose(-1, -2), dim=-2)
        o = torch.einsum("bhkq,bkhd->bqhd", a, v).reshape(B, N, D)
        h = h + self.wo(o)
        return h + self.ff(self.l2(h))


class ESOLNet(nn.Module):
    """atoms (B, N) atomic numbers, 0 = no atom; spd (B, N, N) long, -1 = not connected.

    spd[b, i, j] biases how atom i looks at atom j. Returns log solubility (B,).
    """

    def __init__(self, dim=32, nh=4, layers=2, max_spd=8):
        super().__init__()
        self.max_spd = max_spd
        self.z_emb = nn.Embedding(100, dim, padding_idx=0)
        # last row: not connected
        self.spd_emb = nn.Embedding(max_spd + 2, nh)
        self.layers = nn.ModuleList([GraphLayer(dim, nh) for _ in range(layers)])
        self.out = nn.Linear(dim, 1)

    def forward(self, atoms, spd):
        there = atoms != 0
        idx = torch.where(spd < 0, self.max_spd + 1, spd.clamp(max=self.max_spd))
        pair = self.spd_emb(idx).permute(0, 3, 1, 2)
        pair = pair.masked_fill(~there[:, None, None, :], float("-inf"))
        h = self.z_emb(atoms)
        for lay in self.layers:
            h = lay(h, pair)
        h = h * there.unsqueeze(-1)
        return self.out(h.sum(1) / there.sum(1, keepdim=True)).squeeze(-1)
