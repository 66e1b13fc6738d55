"""
Sliding-window attention for long DNA tracks (promoter / enhancer tagging).

Position i attends to the positions i-r .. i+r (2r+1 of them, itself included),
clipped at the ends of the sequence; unknown bases ("N", valid=False) are never
attended to. Memory is O(L * (2r+1)): keys and values are unfolded into windows.
A learned bias per head and relative offset is added to the scaled logits.
"""
import torch
from torch import nn
import torch.nn.functional as F


def windows(x: torch.Tensor, r: int, value=0.0) -> torch.Tensor:
    """[B, H, L, D] -> [B, H, L, 2r+1, D]; window w of position i is i - r + w."""
    x = F.pad(x, (0, 0, r, r), value=value)
    return x.unfold(2, 2 * r + 1, 1).transpose(-1, -2)


class LocalAttention(nn.Module):
    def __init__(self, dim: int, heads: int, radius: int):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.radius = heads, radius
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)
        self.rel_bias = nn.Parameter(torch.zeros(heads, 2 * radius + 1))

    def split(self, t):
        b, l, _ = t.shape
        return t.reshape(b, l, self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None = None) -> torch.Tensor:
        b, l, c = x.shape
        r = self.radius
        q = self.split(self.to_q(x))
        k, v = (self.split(t) for t in self.to_kv(x).chunk(2, dim=-1))

        kw, vw = windows(k, r), windows(v, r)
        logits = torch.einsum("bhld,bhlwd->bhlw", q, kw) * q.shape[-1] ** -0.5
        logits = logits + self.rel_bias[None, :, None, :]

        if valid is None:
            valid = torch.ones(b, l, dtype=torch.bool, device=x.device)
        inside = F.pad(valid, (r, r), value=False).unfold(1, 2 * r + 1, 1)      # [B, L, W]
        inside = inside[:, None]
        logits = logits.masked_fill(~inside, torch.finfo(logits.dtype).min)
        # a window of N's only: all its weights are zero
        weights = logits.softmax(-1).masked_fill(~inside, 0.0)

        y = torch.einsum("bhlw,bhlwd->bhld", weights, vw)
        return self.proj(y.transpose(1, 2).reshape(b, l, c))


class TrackTagger(nn.Module):
    """one-hot DNA [B, L, 4] -> logits per base [B, L, n_tracks]"""

    def __init__(self, n_tracks: int, dim: int = 32, heads: int = 4, radius: int = 8, depth: int = 2):
        super().__init__()
        self.stem = nn.Conv1d(4, dim, 15, padding=7)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                nn.LayerNorm(dim), LocalAttention(dim, heads, radius),
                nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
            ]))
        self.head = nn.Linear(dim, n_tracks)

    def forward(self, onehot):
        valid = onehot.sum(-1) > 0
        x = self.stem(onehot.transpose(1, 2)).transpose(1, 2)
        for n1, attn, n2, mlp in self.layers:
            x = x + attn(n1(x), valid)
            x = x + mlp(n2(x))
        return self.head(x)
