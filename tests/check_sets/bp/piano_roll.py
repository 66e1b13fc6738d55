# Piano performance generation with relative self attention
# (Huang et al., Music Transformer, with the memory saving skewing trick).
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

NOTE_ON, NOTE_OFF, SHIFT, VEL = 128, 128, 100, 32
VOCAB = NOTE_ON + NOTE_OFF + SHIFT + VEL + 1


def event_name(i):
    for name, n in (("on", NOTE_ON), ("off", NOTE_OFF), ("shift", SHIFT), ("vel", VEL)):
        if i < n:
            return f"{name}<{i}>"
        i -= n
    return "end"


class RelativeGlobalAttention(nn.Module):
    """Causal.  score[i, j] = q_i . (k_j + e_{i-j}) / sqrt(d) for j <= i.

    Er is stored from the farthest to the nearest distance: its last row belongs to
    distance 0, the row before to distance 1, and so on.
    """

    def __init__(self, d_model, heads, max_len=256):
        super().__init__()
        self.h, self.dh, self.max_len = heads, d_model // heads, max_len
        self.Wq = nn.Linear(d_model, d_model)
        self.Wk = nn.Linear(d_model, d_model)
        self.Wv = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.Er = nn.Parameter(torch.randn(max_len, self.dh) * 0.3)

    def skew(self, qe):
        # (B, h, L, L), columns are distances -> columns are key positions
        B, h, L, _ = qe.shape
        padded = F.pad(qe, (0, 1))
        return padded.reshape(B, h, L + 1, L)[:, :, 1:, :]

    def forward(self, x):
        B, L, D = x.shape
        q = self.Wq(x).view(B, L, self.h, self.dh).permute(0, 2, 1, 3)
        k = self.Wk(x).view(B, L, self.h, self.dh).permute(0, 2, 3, 1)
        v = self.Wv(x).view(B, L, self.h, self.dh).permute(0, 2, 1, 3)
        er = self.Er[self.max_len - L:]
        srel = self.skew(torch.matmul(q, er.t()))
        logits = (torch.matmul(q, k) + srel) / math.sqrt(self.dh)
        future = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        w = F.softmax(logits.masked_fill(future, float("-inf")), -1)
        out = torch.matmul(w, v).permute(0, 2, 1, 3).reshape(B, L, D)
        return self.fc(out)


class PianoDecoder(nn.Module):
    def __init__(self, d_model=64, heads=4, depth=2, max_len=256):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d_model)
        self.att = nn.ModuleList(RelativeGlobalAttention(d_model, heads, max_len) for _ in range(depth))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))
            for _ in range(depth)
        )
        self.n1 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(depth))
        self.out = nn.Linear(d_model, VOCAB)

    def forward(self, events):
        x = self.emb(events) * math.sqrt(self.emb.embedding_dim)
        for a, f, n1, n2 in zip(self.att, self.ffn, self.n1, self.n2):
            x = n1(x + a(x))
            x = n2(x + f(x))
        return self.out(x)
