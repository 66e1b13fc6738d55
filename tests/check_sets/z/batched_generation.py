"""Decoder-only LM with left padding, so that a batch of prompts ends at the same column."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def build_attention_bias(attention_mask, dtype):
    """attention_mask (B, T), 1 = token, 0 = padding  ->  additive bias (B, 1, T, T)

    Forbidden are: later positions, padding as key, and padding as query.
    """
    B, T = attention_mask.shape
    lowest = torch.finfo(dtype).min
    causal = torch.full((T, T), lowest, dtype=dtype, device=attention_mask.device).triu(1)
    pad = (1.0 - attention_mask.to(dtype)) * lowest
    bias = causal[None, None] + pad[:, None, None, :] + pad[:, None, :, None]
    return bias


def positions_from_mask(attention_mask):
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)


class SelfAttn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.dh = h, d // h
        self.c_attn = nn.Linear(d, 3 * d)
        self.c_proj = nn.Linear(d, d)

    def forward(self, x, bias):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = [t.reshape(B, T, self.h, self.dh).transpose(1, 2) for t in (q, k, v)]
        w = torch.matmul(q, k.transpose(-1, -2)) / self.dh ** 0.5 + bias
        w = F.softmax(w, dim=-1)
        return self.c_proj(torch.matmul(w, v).transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(d), SelfAttn(d, h)
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, bias):
        x = x + self.attn(self.ln_1(x), bias)
        return x + self.mlp(self.ln_2(x))


class BatchLM(nn.Module):
    def __init__(self, vocab=64, d=32, h=4, depth=2, max_len=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(max_len, d)
        self.h = nn.ModuleList([Layer(d, h) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(d)

    def forward(self, ids, attention_mask=None):
        """ids (B, T), attention_mask (B, T) 1 = token, 0 = padding (on the left)."""
        if attention_mask is None:
            attention_mask = torch.ones_like(ids)
        x = self.wte(ids) + self.wpe(positions_from_mask(attention_mask))
        bias = build_attention_bias(attention_mask, x.dtype)
        for layer in self.h:
            x = layer(x, bias)
        return self.ln_f(x) @ self.wte.weight.T

    @torch.no_grad()
    def generate(self, ids, attention_mask, steps):
        for _ in range(steps):
            nxt = self(ids, attention_mask)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], 1)
            attention_mask = torch.cat([attention_mask, torch.ones_like(nxt)], 1)
        return ids
