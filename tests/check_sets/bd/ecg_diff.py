"""12-lead ECG classifier, differential attention variant (after Ye et al., 2024).

Each head computes two softmax maps from two halves of its query/key channels and
subtracts lambda times the second from the first. The map can be negative and its
rows sum to 1 - lambda: that is intended.
"""
import math
import torch
import torch.nn as nn


def lambda_init(layer):
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


class DiffAttn(nn.Module):
    def __init__(self, dim: int, heads: int, layer: int):
        super().__init__()
        assert dim % (2 * heads) == 0
        self.heads = heads
        self.half = dim // heads // 2
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.l0 = lambda_init(layer)
        mk = lambda: nn.Parameter(torch.randn(self.half) * 0.1)
        self.lq1, self.lk1, self.lq2, self.lk2 = mk(), mk(), mk(), mk()
        self.sub = nn.RMSNorm(2 * self.half, eps=1e-5, elementwise_affine=False)

    def lam(self):
        return torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.l0

    def forward(self, x, lengths=None):
        """x [B, T, dim]; lengths [B] = number of valid samples (>= 1), the rest is padding."""
        B, T, dim = x.shape
        H, h = self.heads, self.half
        q = self.wq(x).view(B, T, H, 2, h)
        k = self.wk(x).view(B, T, H, 2, h)
        v = self.wv(x).view(B, T, H, 2 * h)
        a = torch.einsum("bihcd,bjhcd->bhcij", q, k) / math.sqrt(h)
        if lengths is not None:
            pad = torch.arange(T, device=x.device)[None, :] >= lengths[:, None]
            a = a.masked_fill(pad[:, None, None, None, :], float("-inf"))
        a = a.softmax(-1)
        a = a[:, :, 0] - self.lam() * a[:, :, 1]
        o = torch.einsum("bhij,bjhd->bihd", a, v)
        o = self.sub(o) * (1 - self.l0)
        return self.wo(o.reshape(B, T, dim))


class EcgNet(nn.Module):
    def __init__(self, leads=12, dim=64, heads=4, depth=3, classes=5, patch=10):
        super().__init__()
        self.patch = nn.Conv1d(leads, dim, patch, stride=patch)
        self.att = nn.ModuleList([DiffAttn(dim, heads, i) for i in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.ff = nn.ModuleList([
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)])
        self.cls = nn.Linear(dim, classes)

    def forward(self, sig, lengths=None):
        x = self.patch(sig).transpose(1, 2)
        for a, n, f in zip(self.att, self.ln, self.ff):
            x = x + a(n(x), lengths)
            x = x + f(x)
        if lengths is None:
            return self.cls(x.mean(1))
        m = (torch.arange(x.size(1))[None] < lengths[:, None]).unsqueeze(-1).to(x.dtype)
        return self.cls((x * m).sum(1) / m.sum(1))


if __name__ == "__main__":
    net = EcgNet()
    print(net(torch.randn(2, 12, 500), torch.tensor([50, 31])).shape)
