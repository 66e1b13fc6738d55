"""Gemma-2 attention, single file, loads the HF checkpoint."""
from types import SimpleNamespace

import torch
import torch.nn as nn

CONFIG_2B = SimpleNamespace(
    hidden_size=2304, num_heads=8, num_kv_heads=4, head_dim=256,
    query_pre_attn_scalar=256, attn_logit_softcapping=50.0, sliding_window=4096,
)
CONFIG_TEST = SimpleNamespace(
    hidden_size=32, num_heads=4, num_kv_heads=2, head_dim=8,
    query_pre_attn_scalar=8, attn_logit_softcapping=5.0, sliding_window=4,
)


def causal_mask(T, window, device):
    i = torch.arange(T, device=device)
    dist = i[:, None] - i[None, :]
    keep = dist >= 0
    if window is not None:
        keep = keep & (dist < window)
    return torch.zeros(T, T, device=device).masked_fill(~keep, -1e30)


class Gemma2Attention(nn.Module):
    def __init__(self, cfg, sliding=False):
        super().__init__()
        self.cfg = cfg
        self.window = cfg.sliding_window if sliding else None
        D = cfg.head_dim
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.num_heads * D, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, cfg.num_kv_heads * D, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, cfg.num_kv_heads * D, bias=False)
        self.o_proj = nn.Linear(cfg.num_heads * D, cfg.hidden_size, bias=False)

    @staticmethod
    def rotate(x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-x2, x1), dim=-1) * sin

    def forward(self, x, cos, sin):
        """x [B, T, hidden]; cos, sin [T, head_dim], halves repeated."""
        cfg = self.cfg
        B, T, _ = x.shape
        shape = (B, T, -1, cfg.head_dim)
        q = self.rotate(self.q_proj(x).view(shape).transpose(1, 2), cos, sin)
        k = self.rotate(self.k_proj(x).view(shape).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(shape).transpose(1, 2)

        groups = cfg.num_heads // cfg.num_kv_heads
        k = k.repeat(1, groups, 1, 1)
        v = v.repeat(1, groups, 1, 1)

        logits = q @ k.transpose(2, 3) * cfg.query_pre_attn_scalar ** -0.5
        logits = logits + causal_mask(T, self.window, x.device)
        cap = cfg.attn_logit_softcapping
        logits = cap * torch.tanh(logits / cap)
        probs = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        out = (probs @ v).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(out)
