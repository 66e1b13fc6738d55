# coding=utf-8
# Fork of a public "modeling_*.py", trimmed for our Basque-language checkpoint.
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GemmetteConfig:
    hidden_size: int = 48
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 16
    query_pre_attn_scalar: float = 16.0  # equals head_dim in all released sizes
    attn_logit_softcapping: float | None = 50.0
    sliding_window: int | None = 4  # keys a token can see, itself included
    rope_theta: float = 10000.0


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class GemmetteRotary(nn.Module):
    def __init__(self, dim, theta):
        super().__init__()
        inv = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, x, position_ids):
        ang = position_ids[..., None].float() * self.inv_freq
        emb = torch.cat((ang, ang), dim=-1)[:, None]
        cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
        return x * cos + rotate_half(x) * sin


def repeat_kv(x, n_rep):
    """(b, kv, s, d) -> (b, kv * n_rep, s, d), every kv head n_rep times in a row."""
    b, kv, s, d = x.shape
    return x[:, :, None].expand(b, kv, n_rep, s, d).reshape(b, kv * n_rep, s, d)


class GemmetteAttention(nn.Module):
    """Causal sliding-window attention; attention_mask (b, s): 1 = real token."""

    def __init__(self, config: GemmetteConfig):
        super().__init__()
        c = self.config = config
        self.n_rep = c.num_attention_heads // c.num_key_value_heads
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)
        self.rotary = GemmetteRotary(c.head_dim, c.rope_theta)

    def forward(self, hidden_states, attention_mask=None):
        b, s, _ = hidden_states.shape
        c = self.config
        shape = (b, s, -1, c.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        pos = torch.arange(s, device=q.device)[None]
        q, k = self.rotary(q, pos), self.rotary(k, pos)
        k, v = repeat_kv(k, self.n_rep), repeat_kv(v, self.n_rep)

        logits = q @ k.transpose(2, 3) * c.query_pre_attn_scalar**-0.5
        if c.attn_logit_softcapping is not None:
            logits = torch.tanh(logits / c.attn_logit_softcapping) * c.attn_logit_softcapping
        dist = pos[0][:, None] - pos[0][None, :]
        keep = dist >= 0
        if c.sliding_window is not None:
            keep = keep & (dist < c.sliding_window)
        keep = keep[None, None]
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None, :].bool()
        logits = logits.masked_fill(~keep, torch.finfo(logits.dtype).min)
        probs = logits.softmax(-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj((probs @ v).transpose(1, 2).reshape(b, s, -1)), probs
