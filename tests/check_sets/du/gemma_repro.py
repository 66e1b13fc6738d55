"""Minimal repro of my Gemma-2 attention in eager mode (logit soft-capping).

Logits l = q . k / sqrt(query_pre_attn_scalar) are capped, cap * tanh(l / cap); tokens that the
causal or the padding mask forbids must get probability zero.  bf16 weights are fine, the
softmax is in float32.  My small model was trained with cap = 5 (the released one has 50).
"""
import torch
from torch import nn


def make_mask(attention_mask, dtype):
    """(B, T) with 1 = token, 0 = padding on the LEFT or right -> additive (B, 1, T, T).

    0 where allowed, the smallest finite number elsewhere.
    """
    B, T = attention_mask.shape
    ok = torch.tril(torch.ones(T, T, dtype=torch.bool, device=attention_mask.device))
    ok = ok[None, None] & attention_mask.bool()[:, None, None, :]
    zeros = torch.zeros(B, 1, T, T, dtype=dtype, device=attention_mask.device)
    return zeros.masked_fill(~ok, torch.finfo(dtype).min)


class Gemma2Attention(nn.Module):
    """hidden (B, T, D), attention_mask (B, T) 1/0 -> (B, T, D), causal."""

    def __init__(self, D=96, n_heads=4, n_kv=2, head_dim=32, query_pre_attn_scalar=32,
                 attn_logit_softcapping=5.0):
        super().__init__()
        self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, head_dim
        self.scaling = query_pre_attn_scalar ** -0.5
        self.cap = attn_logit_softcapping
        self.q_proj = nn.Linear(D, n_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(D, n_kv * head_dim, bias=False)
        self.v_proj = nn.Linear(D, n_kv * head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * head_dim, D, bias=False)

    def forward(self, hidden, attention_mask):
        B, T, _ = hidden.shape
        groups = self.n_heads // self.n_kv
        q = self.q_proj(hidden).view(B, T, self.n_heads, -1).transpose(1, 2)
        k = self.k_proj(hidden).view(B, T, self.n_kv, -1).transpose(1, 2)
        v = self.v_proj(hidden).view(B, T, self.n_kv, -1).transpose(1, 2)
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)
        logits = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        logits = logits + make_mask(attention_mask, logits.dtype)
        if self.cap is not None:
            logits = torch.tanh(logits / self.cap) * self.cap
        p = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        y = torch.matmul(p, v).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(y)
