import torch
import torch.nn as nn


class Heads(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * d)
        self.o = nn.Linear(d, d)

    def forward(self, a, b, block):
        # block is True on the pairs (query, key) that must not interact
        q = self.q(a).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.kv(b).chunk(2, dim=-1))
        s = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        s = s.masked_fill(block, torch.finfo(s.dtype).min)
        z = s.softmax(dim=-1) @ v
        return self.o(z.transpose(1, 2).flatten(2))


class TranslationDecoderLayer(nn.Module):
    """
    y:       (B, T, d) embedded target prefix
    memory:  (B, S, d) encoder output
    src_mask (B, S) bool, True for real source words, False for padding
    """

    def __init__(self, d=32, h=4):
        super().__init__()
        self.own = Heads(d, h)
        self.src = Heads(d, h)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))

    def forward(self, y, memory, src_mask):
        T = y.size(1)
        later = torch.triu(torch.ones(T, T, dtype=torch.bool, device=y.device), 1)
        y = self.norms[0](y + self.own(y, y, later))
        y = self.norms[1](y + self.src(y, memory, src_mask[:, None, None, :]))
        return self.norms[2](y + self.ff(y))
