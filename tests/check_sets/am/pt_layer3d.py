"""Point Transformer layer (vector attention on k nearest neighbours), PyTorch without CUDA ops."""
import torch
import torch.nn as nn


def knn(query, support, k):
    """query (B, M, 3), support (B, N, 3) -> (B, M, k) indices"""
    return torch.cdist(query, support).topk(k, dim=-1, largest=False)[1]


def gather(x, idx):
    """x (B, N, C), idx (B, M, K) -> (B, M, K, C)"""
    B = x.shape[0]
    return x[torch.arange(B, device=x.device).view(B, 1, 1), idx]


class PTLayer(nn.Module):
    """y_i = sum_j softmax_j( gamma(phi(x_i) - psi(x_j) + delta) ) * (alpha(x_j) + delta)

    with delta = theta(p_i - p_j); the softmax is taken per channel over the neighbours j.
    """

    def __init__(self, dim, k=16, hidden_mult=2):
        super().__init__()
        self.k = k
        self.phi = nn.Linear(dim, dim, bias=False)
        self.psi = nn.Linear(dim, dim, bias=False)
        self.alpha = nn.Linear(dim, dim, bias=False)
        self.theta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, dim * hidden_mult), nn.ReLU(),
                                   nn.Linear(dim * hidden_mult, dim))

    def forward(self, xyz, feat):
        k = min(self.k, xyz.shape[1])
        idx = knn(xyz, xyz, k)
        delta = self.theta(xyz.unsqueeze(2) - gather(xyz, idx))
        logits = self.gamma(self.phi(feat).unsqueeze(2) - gather(self.psi(feat), idx) + delta)
        w = torch.softmax(logits, dim=2)
        return (w * (gather(self.alpha(feat), idx) + delta)).sum(dim=2)


class PTBlock(nn.Module):
    def __init__(self, dim, k):
        super().__init__()
        self.pre, self.post = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.attn = PTLayer(dim, k)
        self.norm = nn.LayerNorm(dim)

    def forward(self, xyz, feat):
        return feat + self.post(self.attn(xyz, self.pre(self.norm(feat)).relu()))


def farthest_points(xyz, m):
    """(B, N, 3) -> (B, m) indices; begins with point 0"""
    B, N, _ = xyz.shape
    dist = torch.full((B, N), float("inf"), device=xyz.device)
    cur = torch.zeros(B, dtype=torch.long, device=xyz.device)
    out = []
    for _ in range(m):
        out.append(cur)
        p = xyz[torch.arange(B), cur].unsqueeze(1)
        dist = torch.minimum(dist, ((xyz - p) ** 2).sum(-1))
        cur = dist.argmax(1)
    return torch.stack(out, 1)


class TransitionDown(nn.Module):
    def __init__(self, cin, cout, ratio=4, k=16):
        super().__init__()
        self.ratio, self.k = ratio, k
        self.fc = nn.Sequential(nn.Linear(cin + 3, cout), nn.ReLU())

    def forward(self, xyz, feat):
        sel = farthest_points(xyz, max(1, xyz.shape[1] // self.ratio))
        new = gather(xyz, sel.unsqueeze(-1)).squeeze(2)
        idx = knn(new, xyz, min(self.k, xyz.shape[1]))
        rel = gather(xyz, idx) - new.unsqueeze(2)
        return new, self.fc(torch.cat([rel, gather(feat, idx)], -1)).amax(2)
