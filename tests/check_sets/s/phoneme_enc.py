# FastSpeech-like phoneme encoder (fixed 4 s crops, so no padding anywhere)
import math

import torch
import torch.nn as nn


class ConvFF(nn.Module):
    def __init__(self, d, hid, k=9):
        super().__init__()
        self.c1 = nn.Conv1d(d, hid, k, padding=k // 2)
        self.c2 = nn.Conv1d(hid, d, 1)

    def forward(self, x):
        return self.c2(torch.relu(self.c1(x.transpose(1, 2)))).transpose(1, 2)


class FFTBlock(nn.Module):
    def __init__(self, d, heads, hid):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, heads, dropout=0.1)
        self.ff = ConvFF(d, hid)
        self.norm1 = nn.LayerNorm(d)
        self.norm2 = nn.LayerNorm(d)

    def forward(self, x):
        a, _ = self.attn(x, x, x)
        x = self.norm1(x + a)
        return self.norm2(x + self.ff(x))


class PhonemeEncoder(nn.Module):
    """ids [B, T] -> hidden states [B, T, d]"""

    def __init__(self, n_phones=70, d=32, heads=2, layers=2, hid=64):
        super().__init__()
        self.emb = nn.Embedding(n_phones, d)
        self.blocks = nn.ModuleList(FFTBlock(d, heads, hid) for _ in range(layers))
        self.d = d

    def table(self, T, device):
        pos = torch.arange(T, device=device).float()[:, None]
        f = torch.exp(torch.arange(0, self.d, 2, device=device) * (-math.log(10000.0) / self.d))
        t = torch.zeros(T, self.d, device=device)
        t[:, 0::2] = torch.sin(pos * f)
        t[:, 1::2] = torch.cos(pos * f)
        return t

    def forward(self, ids):
        x = self.emb(ids) * math.sqrt(self.d) + self.table(ids.shape[1], ids.device)
        for b in self.blocks:
            x = b(x)
        return x
