"""Слой энкодера из «Attention Is All You Need» (post-norm) для классификации отзывов.

    h      (B, L, D)  представления токенов
    mask   (B, L)     1 = настоящий токен, 0 = паддинг
    выход  (B, L, D)  LayerNorm(h + MHA(h)), затем LayerNorm(. + FFN(.))

Голова номер i работает с каналами [i*d, (i+1)*d) проекций; результаты голов
склеиваются для каждого токена в том же порядке и проходят через W_o.
"""
import math

import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        assert d_model % heads == 0
        self.h, self.d = heads, d_model // heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def heads_first(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.h, self.d).transpose(1, 2)

    def forward(self, x, mask):
        b, l, dm = x.shape
        q, k, v = (self.heads_first(w(x)) for w in (self.w_q, self.w_k, self.w_v))
        s = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        s = s.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        a = s.softmax(dim=-1)
        ctx = torch.matmul(a, v)                    # (B, heads, L, d)
        return self.w_o(ctx.contiguous().view(b, l, dm))


class EncoderLayer(nn.Module):
    def __init__(self, d_model=32, heads=4, d_ff=64):
        super().__init__()
        self.att = MHA(d_model, heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, h, mask):
        h = self.ln1(h + self.att(h, mask))
        return self.ln2(h + self.ffn(h))
