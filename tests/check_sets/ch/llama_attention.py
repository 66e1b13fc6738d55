"""Grouped-query attention with rotary embedding and a key/value cache."""
from typing import Optional, Tuple

import torch
import torch.nn as nn


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class LlamaAttention(nn.Module):
    """
    Args:
        hidden_states: (bsz, q_len, hidden)
        past_key_value: optional (key, value), each (bsz, kv_heads, past_len, head_dim)
    Returns:
        (bsz, q_len, hidden) and the new (key, value).

    Causal: a token sees all of the cache, itself and the tokens before it.
    """

    def __init__(self, hidden_size=64, num_heads=8, num_kv_heads=2, rope_theta=10000.0):
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * self.head_dim, hidden_size, bias=False)
        inv_freq = rope_theta ** (-torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def rope(self, x, positions):
        angles = positions[:, None].float() * self.inv_freq[None, :]
        emb = torch.cat((angles, angles), dim=-1)
        return x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)

    def forward(
        self,
        hidden_states: torch.Tensor,
        past_key_value: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
    ):
        bsz, q_len, _ = hidden_states.shape
        past_len = 0 if past_key_value is None else past_key_value[0].shape[2]

        q = self.q_proj(hidden_states).view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, self.num_kv_heads, self.head_dim).transpose(1, 2)

        pos = torch.arange(past_len, past_len + q_len, device=hidden_states.device)
        q, k = self.rope(q, pos), self.rope(k, pos)
        if past_key_value is not None:
            k = torch.cat([past_key_value[0], k], dim=2)
            v = torch.cat([past_key_value[1], v], dim=2)
        present = (k, v)

        n_rep = self.num_heads // self.num_kv_heads
        k = k.repeat_interleave(n_rep, dim=1)
        v = v.repeat_interleave(n_rep, dim=1)

        scores = torch.matmul(q, k.transpose(2, 3)) / self.head_dim ** 0.5
        key_pos = torch.arange(past_len + q_len, device=hidden_states.device)
        scores = scores.masked_fill(key_pos[None, :] > pos[:, None], float("-inf"))
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(probs, v)
        out = out.transpose(1, 2).contiguous().view(bsz, q_len, -1)
        return self.o_proj(out), present
