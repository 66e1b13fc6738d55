"""Long-form audio tagging with FAVOR+ (Choromanski et al., 2021), positive random features.

The estimator is unbiased for exp(q.k / sqrt(d)):

    phi(x) = exp(w_m . x / d^(1/4) - |x|^2 / (2 sqrt(d))) / sqrt(M)

so that phi(q).phi(k), normalised over the keys, approximates softmax attention.
"""
import math

import torch
import torch.nn as nn


def gaussian_orthogonal(rows, cols, generator=None):
    blocks = []
    for _ in range(math.ceil(rows / cols)):
        q, _ = torch.linalg.qr(torch.randn(cols, cols, generator=generator))
        blocks.append(q.t())
    mat = torch.cat(blocks)[:rows]
    norms = torch.randn(rows, cols, generator=generator).norm(dim=1)
    return norms[:, None] * mat


def positive_features(x, proj, eps=1e-6):
    """x (B, H, N, d), proj (M, d) -> (B, H, N, M)"""
    d, m = x.shape[-1], proj.shape[0]
    x = x * d ** -0.25
    logits = x @ proj.t()
    sq = x.pow(2).sum(-1, keepdim=True) / 2
    # subtracting a maximum keeps exp() in range and cancels in the normalisation
    top = logits.amax(dim=-1, keepdim=True).detach()
    return m ** -0.5 * (torch.exp(logits - sq - top) + eps)


class FavorAttention(nn.Module):
    def __init__(self, dim, heads=4, features=64, seed=0):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        g = torch.Generator().manual_seed(seed)
        self.register_buffer("proj", gaussian_orthogonal(features, self.hd, g))

    @torch.no_grad()
    def redraw(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.proj.copy_(gaussian_orthogonal(*self.proj.shape, g))

    def forward(self, x, frames=None):
        """x (B, N, D); frames (B,) number of real frames"""
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        fq = positive_features(q, self.proj)
        fk = positive_features(k, self.proj)
        if frames is not None:
            real = torch.arange(N, device=x.device)[None] < frames[:, None]
            fk = fk * real[:, None, :, None]
        kv = torch.einsum("bhnm,bhnd->bhmd", fk, v)
        z = torch.einsum("bhnm,bhm->bhn", fq, fk.sum(dim=2))
        y = torch.einsum("bhnm,bhmd->bhnd", fq, kv) / z.unsqueeze(-1)
        return self.out(y.transpose(1, 2).reshape(B, N, D))


class Tagger(nn.Module):
    def __init__(self, mels=64, dim=96, depth=2, heads=4, classes=20):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(mels, dim, 5, stride=2, padding=2), nn.GELU())
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.atts = nn.ModuleList(FavorAttention(dim, heads, seed=i) for i in range(depth))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(),
                          nn.Linear(2 * dim, dim))
            for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, mel, frames):
        x = self.front(mel).transpose(1, 2)
        frames = (frames + 1) // 2
        for norm, att, ff in zip(self.norms, self.atts, self.ffs):
            x = x + att(norm(x), frames)
            x = x + ff(x)
        real = torch.arange(x.shape[1], device=x.device)[None] < frames[:, None]
        x = (x * real.unsqueeze(-1)).sum(1) / real.sum(1, keepdim=True)
        return self.head(x).sigmoid()


if __name__ == "__main__":
    print(Tagger()(torch.randn(2, 64, 101), torch.tensor([101, 60])).shape)
