"""Prosody predictor of the TTS: phones attend to phones, logits softly capped.

PhoneAttention(dim, heads, cap)(x, pad):
    x    [B, L, dim]
    pad  [B, L] bool, True = filler behind the last phone (never a whole row)
The logits z = q.k / sqrt(dim / heads) are limited to cap * tanh(z / cap), as in
Gemma 2, which keeps the training stable; filler gets weight zero.

predict(x, pad) of Prosody returns pitch and duration, each [B, L].
"""
import torch
from torch import nn


class PhoneAttention(nn.Module):
    def __init__(self, dim, heads, cap=4.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, pad):
        B, L, D = x.shape
        shape = (B, L, self.heads, D // self.heads)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)

        z = torch.matmul(q, k.transpose(2, 3)) * (D // self.heads) ** -0.5
        z = z.masked_fill(pad[:, None, None, :], torch.finfo(z.dtype).min)
        z = self.cap * torch.tanh(z / self.cap)
        w = torch.softmax(z, dim=-1)
        y = torch.matmul(w, v).transpose(1, 2).contiguous().view(B, L, D)
        return self.o_proj(y)


class Prosody(nn.Module):
    def __init__(self, n_phones=70, dim=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(n_phones, dim)
        self.norm = nn.LayerNorm(dim)
        self.att = PhoneAttention(dim, heads)
        self.pitch = nn.Linear(dim, 1)
        self.dur = nn.Linear(dim, 1)

    def forward(self, phones, lengths):
        """phones [B, L] int, lengths [B]"""
        pad = torch.arange(phones.size(1), device=phones.device)[None] >= lengths[:, None]
        x = self.emb(phones)
        x = x + self.att(self.norm(x), pad)
        pitch = self.pitch(x).squeeze(-1).masked_fill(pad, 0.0)
        dur = nn.functional.softplus(self.dur(x).squeeze(-1)).masked_fill(pad, 0.0)
        return pitch, dur
