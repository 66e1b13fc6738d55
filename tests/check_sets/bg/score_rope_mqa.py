"""Piano continuation. Multi-query attention, complex rotary embedding, static cache."""
import torch
from torch import nn


def precompute_freqs_cis(dim, end, theta=10000.0):
    f = 1.0 / theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim)
    ang = torch.outer(torch.arange(end).float(), f)
    return torch.polar(torch.ones_like(ang), ang)


def apply_rotary(x, fc):
    """x [B, T, h, d], fc [T, d/2]"""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * fc[None, :, None]).flatten(3).type_as(x)


class NoteAttention(nn.Module):
    """One key/value head for all query heads.

    forward(x, start): x [B, T, D] are the notes start .. start+T-1 of the piece.  Must be
    called with rising `start` after a call with start = 0; earlier notes are in the cache.
    """

    def __init__(self, dim, heads, max_batch=4, max_len=64):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, self.hd, bias=False)
        self.wv = nn.Linear(dim, self.hd, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("fc", precompute_freqs_cis(self.hd, max_len), persistent=False)
        self.register_buffer("ck", torch.zeros(max_batch, max_len, self.hd), persistent=False)
        self.register_buffer("cv", torch.zeros(max_batch, max_len, self.hd), persistent=False)

    @torch.no_grad()
    def forward(self, x, start: int = 0):
        b, t, _ = x.shape
        end = start + t
        fc = self.fc[start:end]
        q = apply_rotary(self.wq(x).view(b, t, self.heads, self.hd), fc)
        k = apply_rotary(self.wk(x).unsqueeze(2), fc).squeeze(2)
        self.ck[:b, start:end] = k
        self.cv[:b, start:end] = self.wv(x)
        keys, vals = self.ck[:b, :end], self.cv[:b, :end]
        s = torch.einsum("bthd,bsd->bhts", q, keys) / self.hd ** 0.5
        if t > 1:
            m = torch.full((t, end), float("-inf"), device=x.device).triu(start + 1)
            s = s + m
        w = s.float().softmax(-1).type_as(q)
        return self.wo(torch.einsum("bhts,bsd->bthd", w, vals).reshape(b, t, -1))


class Pianist(nn.Module):
    def __init__(self, pitches=128, dim=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(pitches, dim)
        self.att = NoteAttention(dim, heads)
        self.out = nn.Linear(dim, pitches)

    def forward(self, notes, start=0):
        x = self.emb(notes)
        return self.out(x + self.att(x, start))
