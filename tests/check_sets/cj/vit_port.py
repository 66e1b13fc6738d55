"""ViT block whose parameters are filled from the lab's old JAX checkpoints (see convert.py)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PortedAttention(nn.Module):
    """Plain multi-head self-attention over patches.

    The fused projection keeps the row order of the checkpoint: head after head,
    and within a head first its q rows, then its k rows, then its v rows, i.e.
    ``qkv.weight`` is (heads * 3 * head_dim, dim).
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.head_dim**-0.5
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class PortedViT(nn.Module):
    """images (B, 3, H, W) -> class logits; H = W = ``image``."""

    def __init__(self, image=16, patch=4, dim=32, heads=4, depth=2, classes=10):
        super().__init__()
        self.patchify = nn.Conv2d(3, dim, patch, stride=patch)
        n = (image // patch) ** 2
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.ln1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.ln2 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.attn = nn.ModuleList([PortedAttention(dim, heads) for _ in range(depth)])
        self.fc1 = nn.ModuleList([nn.Linear(dim, 4 * dim) for _ in range(depth)])
        self.fc2 = nn.ModuleList([nn.Linear(4 * dim, dim) for _ in range(depth)])
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patchify(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1) + self.pos
        for ln1, attn, ln2, fc1, fc2 in zip(self.ln1, self.attn, self.ln2, self.fc1, self.fc2):
            x = x + attn(ln1(x))
            x = x + fc2(F.gelu(fc1(ln2(x))))
        return self.head(self.ln(x)[:, 0])
