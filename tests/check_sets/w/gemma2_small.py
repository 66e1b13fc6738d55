from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GemmaConfig:
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    query_pre_attn_scalar: int = 16
    attn_logit_softcapping: float = 50.0
    sliding_window: int = 8
    rope_theta: float = 10000.0


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rope(position_ids: torch.Tensor, dim: int, theta: float):
    inv = 1.0 / theta ** (torch.arange(0, dim, 2, device=position_ids.device).float() / dim)
    freqs = position_ids[:, None].float() * inv[None]
    emb = torch.cat((freqs, freqs), dim=-1)
    return emb.cos(), emb.sin()


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """(batch, kv heads, seq, dim) -> (batch, heads, seq, dim), each kv head n_rep times in a row"""
    b, h, s, d = x.shape
    return x[:, :, None].expand(b, h, n_rep, s, d).reshape(b, h * n_rep, s, d)


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return y * (1.0 + self.weight)


class GemmaAttention(nn.Module):
    def __init__(self, cfg: GemmaConfig, layer_idx: int):
        super().__init__()
        self.cfg = cfg
        self.scaling = cfg.query_pre_attn_scalar ** -0.5
        self.window = cfg.sliding_window if layer_idx % 2 == 0 else None
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.num_attention_heads * cfg.head_dim, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, cfg.num_key_value_heads * cfg.head_dim, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, cfg.num_key_value_heads * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.num_attention_heads * cfg.head_dim, cfg.hidden_size, bias=False)

    def forward(self, x, past: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        B, T, _ = x.shape
        d = self.cfg.head_dim
        q = self.q_proj(x).view(B, T, -1, d).transpose(1, 2)
        k = self.k_proj(x).view(B, T, -1, d).transpose(1, 2)
        v = self.v_proj(x).view(B, T, -1, d).transpose(1, 2)

        offset = 0 if past is None else past[0].shape[2]
        pos = torch.arange(offset, offset + T, device=x.device)
        cos, sin = rope(pos, d, self.cfg.rope_theta)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        present = (k, v)

        n_rep = self.cfg.num_attention_heads // self.cfg.num_key_value_heads
        k, v = repeat_kv(k, n_rep), repeat_kv(v, n_rep)
        logits = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        cap = self.cfg.attn_logit_softcapping
        logits = torch.tanh(logits / cap) * cap

        kpos = torch.arange(k.shape[2], device=x.device)
        rel = pos[:, None] - kpos[None, :]
        visible = rel >= 0
        if self.window is not None:
            visible &= rel < self.window
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        probs = F.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(out), present


class GemmaModel(nn.Module):
    def __init__(self, cfg: GemmaConfig):
        super().__init__()
        self.attn = nn.ModuleList([GemmaAttention(cfg, i) for i in range(cfg.num_hidden_layers)])
        self.pre = nn.ModuleList([GemmaRMSNorm(cfg.hidden_size) for _ in range(cfg.num_hidden_layers)])
        self.post = nn.ModuleList([GemmaRMSNorm(cfg.hidden_size) for _ in range(cfg.num_hidden_layers)])

    def forward(self, inputs_embeds: torch.Tensor, past_key_values: Optional[List] = None):
        """inputs_embeds (batch, seq, hidden); returns hidden states and the list of (k, v) per layer"""
        x = inputs_embeds
        presents = []
        for i, layer in enumerate(self.attn):
            past = past_key_values[i] if past_key_values is not None else None
            y, present = layer(self.pre[i](x), past)
            x = x + self.post[i](y)
            presents.append(present)
        return x, presents
