"""Bi-encoder for passage retrieval: text tower, pooling and in-batch loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def sinusoid_table(n, d):
    """Vaswani et al.: pe[p, 2i] = sin(p / 10000^(2i/d)),  pe[p, 2i+1] = cos(p / 10000^(2i/d))"""
    pe = torch.zeros(n, d)
    for pos in range(n):
        for i in range(0, d, 2):
            pe[pos, i] = math.sin(pos / 10000 ** ((2 * i) / d))
            pe[pos, i + 1] = math.cos(pos / 10000 ** ((2 * i) / d))
    return pe


class TextTower(nn.Module):
    """ids (B, L), attention_mask (B, L): 1 = word piece, 0 = [PAD] (never used as a key)."""

    def __init__(self, vocab, d=48, heads=4, layers=2, max_len=64):
        super().__init__()
        self.d, self.heads = d, heads
        self.emb = nn.Embedding(vocab, d)
        self.register_buffer("pe", sinusoid_table(max_len, d))
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))

    def mix(self, i, x, attention_mask):
        B, L, _ = x.shape
        q, k, v = (t.view(B, L, self.heads, -1).transpose(1, 2) for t in self.qkv[i](x).chunk(3, -1))
        s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        pad = (attention_mask == 0).unsqueeze(1).unsqueeze(3)
        s = s.masked_fill(pad, torch.finfo(s.dtype).min)
        y = F.softmax(s, -1) @ v
        return self.out[i](y.transpose(1, 2).reshape(B, L, -1))

    def forward(self, ids, attention_mask):
        x = self.emb(ids) * math.sqrt(self.d) + self.pe[: ids.size(1)]
        for i in range(len(self.qkv)):
            x = self.n1[i](x + self.mix(i, x, attention_mask))
            x = self.n2[i](x + self.mlp[i](x))
        m = attention_mask.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * m).sum(1) / m.sum(1).clamp(min=1), dim=-1)


class BiEncoder(nn.Module):
    def __init__(self, vocab, tied=True, **kw):
        super().__init__()
        self.query = TextTower(vocab, **kw)
        self.passage = self.query if tied else TextTower(vocab, **kw)
        self.log_t = nn.Parameter(torch.tensor(3.0))

    def forward(self, batch):
        q = self.query(batch["q_ids"], batch["q_mask"])
        p = self.passage(batch["p_ids"], batch["p_mask"])
        logits = q @ p.T * self.log_t.exp()
        return F.cross_entropy(logits, torch.arange(len(q), device=q.device))
