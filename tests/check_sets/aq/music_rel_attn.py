"""Relative self attention of the piano generator (Huang et al. 2018, 'skewing')."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelGlobalAttention(nn.Module):
    """Causal. Er holds one vector for every distance: row max_len-1 is distance 0 (the note itself),
    row max_len-1-r is r events back. logits_ij = q_i . (k_j + Er[max_len-1-(i-j)]) / sqrt(d)."""

    def __init__(self, dim, heads, max_len=256):
        super().__init__()
        self.h, self.d, self.max_len = heads, dim // heads, max_len
        self.Wq, self.Wk, self.Wv = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.fc = nn.Linear(dim, dim)
        self.Er = nn.Parameter(torch.randn(max_len, self.d) * 0.3)

    def skew(self, qe):
        """[B, H, L, L] indexed by distance row -> indexed by key"""
        b, h, l, _ = qe.shape
        padded = F.pad(qe, (0, 1))
        return padded.reshape(b, h, l + 1, l)[:, :, 1:]

    def forward(self, x):
        b, l, c = x.shape
        q = self.Wq(x).view(b, l, self.h, self.d).transpose(1, 2)
        k = self.Wk(x).view(b, l, self.h, self.d).transpose(1, 2)
        v = self.Wv(x).view(b, l, self.h, self.d).transpose(1, 2)
        er = self.Er[self.max_len - l:]
        srel = self.skew(q @ er.t())
        logits = (q @ k.transpose(-1, -2) + srel) / math.sqrt(self.d)
        later = torch.triu(torch.ones(l, l, dtype=torch.bool, device=x.device), 1)
        w = logits.masked_fill(later, -torch.inf).softmax(-1)
        return self.fc((w @ v).transpose(1, 2).reshape(b, l, c))


class PianoLayer(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.rga = RelGlobalAttention(dim, heads, max_len)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = self.n1(x + self.rga(x))
        return self.n2(x + self.ff(x))


# event vocabulary: note_on 0-127, note_off 128-255, time_shift 256-355, velocity 356-387
VOCAB = 388


def decode_events(ids, ms=10):
    """[(time in ms, pitch, velocity)]"""
    t, vel, notes = 0, 64, []
    for e in ids:
        if e < 128:
            notes.append((t, e, vel))
        elif 256 <= e < 356:
            t += (e - 255) * ms
        elif e >= 356:
            vel = (e - 356) * 4
    return notes


class PianoLM(nn.Module):
    def __init__(self, dim=64, heads=4, layers=2, max_len=256):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList(PianoLayer(dim, heads, max_len) for _ in range(layers))
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        x = self.emb(ids) * self.emb.embedding_dim ** 0.5
        for l in self.layers:
            x = l(x)
        return self.out(x)
