"""BLOOM-style decoder block: fused qkv per head, ALiBi built from the attention mask, KV cache."""
import math
from typing import Optional, Tuple

import torch
from torch import nn


def build_alibi(attention_mask: torch.Tensor, num_heads: int, dtype: torch.dtype) -> torch.Tensor:
    """(B, S) mask of ones at real tokens -> (B, H, 1, S).

    Only the key position enters. In one row of the scores this differs from -slope * (i - j) by a
    constant, which the softmax does not see.
    """
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2 ** (-(2 ** -(math.log2(closest) - 3)))
    slopes = base ** torch.arange(1, 1 + closest, dtype=torch.float32)
    if closest != num_heads:
        extra_base = 2 ** (-(2 ** -(math.log2(2 * closest) - 3)))
        n_rest = min(closest, num_heads - closest)
        extra = extra_base ** torch.arange(1, 1 + 2 * n_rest, 2, dtype=torch.float32)
        slopes = torch.cat([slopes, extra])
    key_pos = (attention_mask.cumsum(dim=-1) - 1) * attention_mask
    alibi = slopes.to(attention_mask.device)[None, :, None] * key_pos[:, None, :]
    return alibi[:, :, None, :].to(dtype)


class BloomAttention(nn.Module):
    def __init__(self, hidden: int, num_heads: int):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden // num_heads
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        # rows of head 0: q, k, v; then head 1: q, k, v; ...
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, x, alibi, blocked, layer_past: Optional[Tuple] = None):
        B, T, _ = x.shape
        fused = self.query_key_value(x).view(B, T, self.num_heads, 3, self.head_dim)
        q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=1)
            v = torch.cat((layer_past[1], v), dim=1)
        present = (k, v)
        S = k.shape[1]
        q = q.transpose(1, 2).reshape(B * self.num_heads, T, self.head_dim)
        kt = k.permute(0, 2, 3, 1).reshape(B * self.num_heads, self.head_dim, S)
        vv = v.transpose(1, 2).reshape(B * self.num_heads, S, self.head_dim)
        a = alibi.reshape(B * self.num_heads, 1, S).expand(-1, T, -1)
        scores = torch.baddbmm(a, q, kt, beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(B, self.num_heads, T, S)
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        ctx = torch.bmm(probs.view(B * self.num_heads, T, S), vv)
        ctx = ctx.view(B, self.num_heads, T, self.head_dim).permute(0, 2, 1, 3).reshape(B, T, -1)
        return self.dense(ctx), present


class BloomBlock(nn.Module):
    def __init__(self, hidden=48, num_heads=6):
        super().__init__()
        self.num_heads = num_heads
        self.input_layernorm = nn.LayerNorm(hidden)
        self.self_attention = BloomAttention(hidden, num_heads)
        self.post_attention_layernorm = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * hidden, hidden))

    def forward(self, x, attention_mask, layer_past=None):
        """x (B, T, hidden) new tokens; attention_mask (B, S) over past + new tokens."""
        T, S = x.shape[1], attention_mask.shape[1]
        alibi = build_alibi(attention_mask, self.num_heads, x.dtype)
        rows = torch.arange(S - T, S, device=x.device)[:, None]
        cols = torch.arange(S, device=x.device)[None, :]
        blocked = (cols > rows)[None, None] | (attention_mask == 0)[:, None, None, :]
        a, present = self.self_attention(self.input_layernorm(x), alibi, blocked, layer_past)
        x = x + a
        return x + self.mlp(self.post_attention_layernorm(x)), present
