"""Raman spectra of pigments: patch transformer with masked-patch pre-training.

Spectrum (1024 wavenumbers) -> 32 patches -> encoder.  Pre-training drops patches
from the input, fine-tuning uses the mean token.  The training script switches
between ``model.train()`` and ``model.eval()`` once per epoch for validation.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PATCH = 32


def snv(x):
    """Standard normal variate, the usual scatter correction."""
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-8)


def drop_peaks(x, p=0.05):
    return x * (torch.rand_like(x) > p)


class SpectralAttention(nn.Module):
    """Self-attention through the fused kernel.

    dropout: probability on the attention weights while training; scoring
    (``eval()``) is deterministic.
    """

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def train(self, mode=True):
        super().train(mode)
        if not mode:
            # the fused kernel does not look at self.training
            self.dropout = 0.0
        return self

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        return self.proj(y.transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.a = SpectralAttention(dim, heads, dropout)
        self.m = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim))
        self.na, self.nm = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.a(self.na(x))
        return x + self.m(self.nm(x))


class PigmentNet(nn.Module):
    def __init__(self, n_classes=60, dim=48, heads=4, depth=3, dropout=0.1, length=1024):
        super().__init__()
        self.embed = nn.Linear(PATCH, dim)
        self.pos = nn.Parameter(torch.zeros(1, length // PATCH, dim))
        self.hole = nn.Parameter(torch.zeros(dim))
        self.blocks = nn.Sequential(*[Block(dim, heads, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.recon = nn.Linear(dim, PATCH)
        self.head = nn.Linear(dim, n_classes)

    def encode(self, spec, holes=None):
        x = self.embed(snv(spec).unflatten(-1, (-1, PATCH)))
        if holes is not None:
            x = torch.where(holes[..., None], self.hole, x)
        return self.norm(self.blocks(x + self.pos))

    def forward(self, spec):
        return self.head(self.encode(spec).mean(1))

    def pretrain_loss(self, spec, ratio=0.4):
        holes = torch.rand(spec.shape[0], self.pos.shape[1], device=spec.device) < ratio
        target = snv(spec).unflatten(-1, (-1, PATCH))
        return F.mse_loss(self.recon(self.encode(drop_peaks(spec), holes))[holes], target[holes])


def fit(model, train, val, epochs=2, lr=3e-4):
    opt = torch.optim.AdamW(model.parameters(), lr)
    for ep in range(epochs):
        model.train()
        for s, y in train:
            loss = F.cross_entropy(model(s), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            hit = sum((model(s).argmax(-1) == y).sum().item() for s, y in val)
        print(ep, hit)
