# Tweet sentiment: tiny encoder with linear position penalties instead of embeddings
import torch
import torch.nn as nn


def slopes(n):
    """Geometric series 2^-(8/n), 2^-(16/n), ... for n a power of two."""
    return torch.tensor([2 ** (-8 * (i + 1) / n) for i in range(n)])


class TweetEncoder(nn.Module):
    """ids (B, L), 0 = padding -> (B, 3)

    The further apart two tokens are, the less they attend to each other (ALiBi, symmetric).
    """

    def __init__(self, vocab=100, dim=32, heads=4, classes=3):
        super().__init__()
        self.heads, self.dk = heads, dim // heads
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.ln = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.cls = nn.Linear(dim, classes)
        self.register_buffer("m", slopes(heads).view(heads, 1, 1))

    def forward(self, ids):
        B, L = ids.shape
        x = self.emb(ids)
        q, k, v = self.qkv(self.ln(x)).view(B, L, 3, self.heads, self.dk).permute(2, 0, 3, 1, 4)
        p = torch.arange(L, device=ids.device)
        gap = (p[:, None] - p[None, :]).abs()
        s = q @ k.transpose(-1, -2) / self.dk ** 0.5 + self.m * gap
        pad = ids.eq(0)
        s = s.masked_fill(pad[:, None, None, :], torch.finfo(s.dtype).min)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, L, -1)
        x = x + self.proj(y)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.cls((x * keep).sum(1) / keep.sum(1).clamp(min=1))
