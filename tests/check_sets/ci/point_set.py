"""Point-cloud classifier with self-attention between points (heads folded in the batch)."""
import torch
import torch.nn as nn


class PointAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.rel = nn.Linear(3, dim)
        self.proj = nn.Linear(dim, dim)

    def fold(self, t):
        """(B, N, H*d) -> (H*B, N, d)"""
        return torch.cat(t.split(self.d, dim=-1), dim=0)

    def unfold(self, t, B):
        """back to (B, N, H*d)"""
        N = t.shape[1]
        t = t.view(B, self.heads, N, self.d)
        return t.permute(0, 2, 1, 3).reshape(B, N, self.heads * self.d)

    def forward(self, x, xyz):
        B = x.shape[0]
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        k = k + self.rel(xyz)
        q, k, v = self.fold(q), self.fold(k), self.fold(v)
        w = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * self.d ** -0.5, dim=2)
        return self.proj(self.unfold(torch.bmm(w, v), B))


class PointClassifier(nn.Module):
    """xyz (B, N, 3) -> class logits (B, n_classes)"""

    def __init__(self, dim=16, heads=2, depth=2, n_classes=5):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attns = nn.ModuleList(PointAttention(dim, heads) for _ in range(depth))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, xyz):
        x = self.embed(xyz)
        for norm, attn, ff in zip(self.norms, self.attns, self.ffs):
            x = x + attn(norm(x), xyz)
            x = x + ff(x)
        return self.head(x.amax(dim=1))
