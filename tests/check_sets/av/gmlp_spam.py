"""gMLP text classifier (Liu et al. 2021), the variant without tiny attention."""
import torch
from torch import nn
import torch.nn.functional as F


class SpatialGatingUnit(nn.Module):
    """Half of the channels gates the other half after a learned mix along the tokens."""

    def __init__(self, dim, seq_len):
        super().__init__()
        self.norm = nn.LayerNorm(dim // 2)
        self.proj = nn.Conv1d(seq_len, seq_len, kernel_size=1)
        nn.init.normal_(self.proj.weight, std=1e-3)
        nn.init.ones_(self.proj.bias)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        v = self.proj(self.norm(v))
        return u * v


class GatedBlock(nn.Module):
    def __init__(self, dim, hidden, seq_len):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inp = nn.Linear(dim, hidden)
        self.sgu = SpatialGatingUnit(hidden, seq_len)
        self.out = nn.Linear(hidden // 2, dim)

    def forward(self, x):
        return x + self.out(self.sgu(F.gelu(self.inp(self.norm(x)))))


class SpamNet(nn.Module):
    def __init__(self, vocab, dim=32, hidden=64, seq_len=40, layers=2):
        super().__init__()
        self.seq_len = seq_len
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*[GatedBlock(dim, hidden, seq_len) for _ in range(layers)])
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        ids = F.pad(ids[:, : self.seq_len], (0, max(0, self.seq_len - ids.shape[1])))
        return self.head(self.blocks(self.emb(ids)).mean(1))
