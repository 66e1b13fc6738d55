"""Attention of the MoE model: grouped queries, a learned sink per head, and a sliding
window on every second layer."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class ModelConfig:
    hidden_size: int = 64
    head_dim: int = 16
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    sliding_window: int = 4      # keys seen, the token itself included
    rope_theta: float = 150000.0


class AttentionBlock(nn.Module):
    def __init__(self, config: ModelConfig, layer_idx: int = 0):
        super().__init__()
        self.cfg = config
        self.window = config.sliding_window if layer_idx % 2 == 0 else 0
        H, G, D = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.sinks = nn.Parameter(torch.randn(H))
        self.qkv = nn.Linear(config.hidden_size, (H + 2 * G) * D)
        self.out = nn.Linear(H * D, config.hidden_size)
        inv = config.rope_theta ** (-torch.arange(0, D, 2).float() / D)
        self.register_buffer("inv_freq", inv, persistent=False)

    def rope(self, x):
        t = torch.arange(x.shape[1], device=x.device)[:, None] * self.inv_freq
        cos, sin = t.cos()[:, None], t.sin()[:, None]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x):
        cfg = self.cfg
        B, T, _ = x.shape
        H, G, D = cfg.num_attention_heads, cfg.num_key_value_heads, cfg.head_dim
        q, k, v = self.qkv(x).split([H * D, G * D, G * D], -1)
        q = self.rope(q.view(B, T, H, D)).view(B, T, G, H // G, D)
        k = self.rope(k.view(B, T, G, D))
        v = v.view(B, T, G, D)

        qk = torch.einsum("bqgmd,bkgd->bgmqk", q, k) / D ** 0.5
        i = torch.arange(T, device=x.device)
        banned = i[None, :] > i[:, None]
        if self.window:
            banned |= i[:, None] - i[None, :] >= self.window
        qk = qk.masked_fill(banned, float("-inf"))
        # the sink takes part in the normalisation only, it has no value:
        # the weights over real keys sum to less than one on purpose
        S = self.sinks.view(1, G, H // G, 1, 1).expand(B, -1, -1, T, 1)
        w = torch.cat((qk, S), -1).softmax(-1)[..., :-1]
        o = torch.einsum("bgmqk,bkgd->bqgmd", w, v)
        return x + self.out(o.reshape(B, T, H * D))
