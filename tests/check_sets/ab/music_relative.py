import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeGlobalAttention(nn.Module):
    """Relative global attention for event sequences (Huang et al. 2018, "Music Transformer").

    logits[i, j] = (q_i . k_j + q_i . Er[j - i]) / sqrt(d)        for j <= i

    Er holds one vector per distance; its last row is distance 0, the row
    before that is distance -1 (the previous event) and so on.  The term is built
    in O(L d) memory with the skewing procedure.
    """

    def __init__(self, embed_dim=256, num_heads=4, max_len=2048):
        super().__init__()
        self.num_heads = num_heads
        self.hd = embed_dim // num_heads
        self.max_len = max_len
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.query = nn.Linear(embed_dim, embed_dim)
        self.Er = nn.Parameter(torch.randn(max_len, self.hd) * 0.05)
        self.fc = nn.Linear(embed_dim, embed_dim)

    def skew(self, QEr):
        # QEr: (B, H, L, L), column c belongs to the distance c - (L - 1)
        b, h, n, _ = QEr.shape
        padded = F.pad(QEr, (0, 1))
        return padded.reshape(b, h, n + 1, n)[:, :, 1:, :]

    def forward(self, x):
        B, L, D = x.shape
        if L > self.max_len:
            raise ValueError("sequence length exceeds model capacity")

        def heads(t):
            return t.reshape(B, L, self.num_heads, self.hd).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        er = self.Er[self.max_len - L:]
        srel = self.skew(q @ er.t())

        att = (q @ k.transpose(-1, -2) + srel) / math.sqrt(self.hd)
        causal = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~causal, float("-inf"))
        att = F.softmax(att, dim=-1)
        out = (att @ v).transpose(1, 2).reshape(B, L, D)
        return self.fc(out)


class MusicBlock(nn.Module):
    def __init__(self, d=256, h=4, max_len=2048):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.rga = RelativeGlobalAttention(d, h, max_len)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = self.ln1(x + self.rga(x))
        return self.ln2(x + self.ffn(x))
