# Pico model. Layout of the classes follows the usual modeling_*.py files so that the trainer can load it.
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class PicoConfig:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 12            # not hidden_size // heads
    query_pre_attn_scalar: int = 16
    attn_logit_softcapping: Optional[float] = 30.0
    rope_theta: float = 10000.0
    rotary_dim: int = 8           # the rest of the head is not rotated
    layer_idx: int = 0


class PicoCache:
    def __init__(self):
        self.store: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def get_seq_length(self, layer_idx=0):
        return self.store[layer_idx][0].shape[1] if len(self.store) > layer_idx else 0

    def update(self, k, v, layer_idx):
        if len(self.store) <= layer_idx:
            self.store.append((k, v))
        else:
            pk, pv = self.store[layer_idx]
            self.store[layer_idx] = torch.cat([pk, k], 1), torch.cat([pv, v], 1)
        return self.store[layer_idx]


def apply_rotary_interleaved(x, position_ids, rotary_dim, theta):
    """x [B, L, H, d]; pairs are (0,1), (2,3), ... (GPT-J order)."""
    inv = theta ** (-torch.arange(0, rotary_dim, 2, device=x.device, dtype=torch.float32) / rotary_dim)
    ang = position_ids[..., None].float() * inv               # B, L, r/2
    cos, sin = ang.cos()[:, :, None].to(x.dtype), ang.sin()[:, :, None].to(x.dtype)
    rot, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    even, odd = rot[..., 0::2], rot[..., 1::2]
    rot = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
    return torch.cat([rot, rest], dim=-1)


class PicoAttention(nn.Module):
    """Grouped-query attention with soft-capped logits.

    Logits are scaled by query_pre_attn_scalar ** -0.5 (a config value, not the head size),
    then cap * tanh(logits / cap), then masked.
    attention_mask: [B, total_len], 1 = token, 0 = padding (left padding), total_len includes the cache.
    """

    def __init__(self, config: PicoConfig):
        super().__init__()
        self.config = config
        c = config
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, hidden_states, attention_mask=None, position_ids=None, past_key_values=None,
                output_attentions=False):
        c = self.config
        B, L, _ = hidden_states.shape
        past = past_key_values.get_seq_length(c.layer_idx) if past_key_values is not None else 0
        if position_ids is None:
            position_ids = torch.arange(past, past + L, device=hidden_states.device).expand(B, L)
        q = self.q_proj(hidden_states).view(B, L, -1, c.head_dim)
        k = self.k_proj(hidden_states).view(B, L, -1, c.head_dim)
        v = self.v_proj(hidden_states).view(B, L, -1, c.head_dim)
        q = apply_rotary_interleaved(q, position_ids, c.rotary_dim, c.rope_theta)
        k = apply_rotary_interleaved(k, position_ids, c.rotary_dim, c.rope_theta)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, c.layer_idx)
        S = k.shape[1]
        # no repeat: split the query heads in (kv head, member)
        q = q.view(B, L, c.num_key_value_heads, -1, c.head_dim)
        w = torch.einsum("blgmd,bsgd->bgmls", q, k) * c.query_pre_attn_scalar ** -0.5
        if c.attn_logit_softcapping is not None:
            w = c.attn_logit_softcapping * torch.tanh(w / c.attn_logit_softcapping)
        ok = torch.arange(S, device=w.device)[None, :] <= torch.arange(past, past + L, device=w.device)[:, None]
        ok = ok[None]
        if attention_mask is not None:
            ok = ok & attention_mask[:, None, :].bool()
        w = w.masked_fill(~ok[:, None, None], torch.finfo(w.dtype).min)
        w = torch.softmax(w, dim=-1, dtype=torch.float32).to(v.dtype)
        y = torch.einsum("bgmls,bsgd->blgmd", w, v).reshape(B, L, -1)
        y = self.o_proj(y)
        return (y, w.flatten(1, 2)) if output_attentions else (y, None)
