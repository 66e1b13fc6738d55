"""Gemma 2 attention (Gemma Team, 2024), without RoPE.

Logits are soft-capped, logits <- cap * tanh(logits / cap) (cap = 50 in the released
models, 2 in our toy models), and then masked: a hidden key gets exactly zero weight. Layers alternate between
full causal attention and a local window of `window` tokens (the token itself included).
Queries are scaled by query_pre_attn_scalar ** -0.5, here the head width.
"""
import torch
from torch import nn


class Gemma2Attention(nn.Module):
    """forward(x, token_mask)

    x           (B, T, D)
    token_mask  (B, T) with 1 = token, 0 = padding on the right
    local       True for the sliding layers
    Query heads n*r .. n*r+r-1 share kv head n. Returns (B, T, D).
    """

    def __init__(self, D=32, heads=4, kv_heads=2, head_dim=8, cap=2.0, local=False, window=4):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, head_dim
        self.cap, self.local, self.window = cap, local, window
        self.q_proj = nn.Linear(D, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(D, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(D, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, D, bias=False)

    def build_mask(self, token_mask):
        T = token_mask.size(1)
        i = torch.arange(T, device=token_mask.device)
        see = i[None, :] <= i[:, None]
        if self.local:
            see = see & (i[None, :] > i[:, None] - self.window)
        see = see[None] & token_mask[:, None, :].bool()
        return see[:, None]                                  # (B, 1, T, T)

    def forward(self, x, token_mask):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.heads, self.hd).transpose(1, 2) * self.hd ** -0.5
        k = self.k_proj(x).view(B, T, self.kv_heads, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.kv_heads, self.hd).transpose(1, 2)
        r = self.heads // self.kv_heads
        k, v = k.repeat_interleave(r, dim=1), v.repeat_interleave(r, dim=1)

        logits = torch.matmul(q, k.mT)
        logits = logits.masked_fill(~self.build_mask(token_mask), -2.3819763e38)
        logits = torch.tanh(logits / self.cap) * self.cap
        p = torch.softmax(logits.float(), dim=-1).to(q.dtype)
        return self.o_proj(torch.matmul(p, v).transpose(1, 2).reshape(B, T, -1))
