"""Point cloud classifier with Point-Transformer layers (vector attention on k nearest points)."""
import torch
import torch.nn as nn


def knn(xyz, k):
    d = torch.cdist(xyz, xyz)
    return d.topk(k, dim=-1, largest=False).indices


def gather(x, idx):
    """x [B, N, C], idx [B, N, k] -> [B, N, k, C]"""
    B = torch.arange(x.shape[0], device=x.device)[:, None, None]
    return x[B, idx]


def farthest(xyz, m):
    B, N, _ = xyz.shape
    sel = torch.zeros(B, m, dtype=torch.long, device=xyz.device)
    dist = xyz.new_full((B, N), 1e10)
    cur = torch.zeros(B, dtype=torch.long, device=xyz.device)
    rows = torch.arange(B, device=xyz.device)
    for i in range(m):
        sel[:, i] = cur
        d = ((xyz - xyz[rows, cur][:, None]) ** 2).sum(-1)
        dist = torch.minimum(dist, d)
        cur = dist.argmax(-1)
    return sel


class PunktAttention(nn.Module):
    """y_i = sum_j softmax_j( gamma(q_i - k_j + delta_ij) ) * (v_j + delta_ij)

    The weights are one vector per neighbour: every channel has its own
    distribution over the k neighbours (Zhao et al. 2021, eq. 3).
    """

    def __init__(self, dim, k=8):
        super().__init__()
        self.k = k
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.delta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, xyz, x):
        idx = knn(xyz, min(self.k, xyz.shape[1]))
        pos = self.delta(xyz.unsqueeze(2) - gather(xyz, idx))
        q = self.wq(x).unsqueeze(2)
        k = gather(self.wk(x), idx)
        v = gather(self.wv(x), idx)
        a = self.gamma(q - k + pos)                 # B N k C
        a = torch.softmax(a, dim=-2)
        return torch.einsum("bnkc,bnkc->bnc", a, v + pos)


class Stufe(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.auf = nn.Linear(cin, cout)
        self.att = PunktAttention(cout, k)
        self.norm = nn.LayerNorm(cout)

    def forward(self, xyz, x, m):
        s = farthest(xyz, m)
        r = torch.arange(xyz.shape[0], device=xyz.device)[:, None]
        xyz, x = xyz[r, s], self.auf(x[r, s])
        return xyz, x + self.norm(self.att(xyz, x))


class WolkenKlassifikator(nn.Module):
    def __init__(self, klassen=40, k=8):
        super().__init__()
        self.s1 = Stufe(3, 32, k)
        self.s2 = Stufe(32, 64, k)
        self.kopf = nn.Linear(64, klassen)

    def forward(self, xyz):
        N = xyz.shape[1]
        p, x = self.s1(xyz, xyz, max(1, N // 2))
        p, x = self.s2(p, x, max(1, N // 4))
        return self.kopf(x.mean(1))
