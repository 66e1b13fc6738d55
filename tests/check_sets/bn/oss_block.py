"""Reimplementation of an open-weight MoE LM's attention layer, reading friendly.

Each head owns one learned sink logit: it takes part in the softmax like one more key
without a value, so a head can decide to attend to nothing much.  Even layers
use a sliding window (the token itself and the window-1 before it), odd layers see all.
"""
import dataclasses
import math

import torch
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 8
    sliding_window: int = 4
    rope_theta: float = 150000.0
    num_layers: int = 2


def rope(x: Tensor, theta: float, start: int = 0) -> Tensor:
    """half-split rotary; x is [tokens, heads.., head_dim]"""
    n, d = x.shape[0], x.shape[-1]
    freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    t = torch.arange(start, start + n, dtype=torch.float32, device=x.device)
    ang = torch.einsum("i,j->ij", t, freq)
    shape = (n,) + (1,) * (x.dim() - 2) + (d // 2,)
    cos, sin = ang.cos().view(shape).to(x.dtype), ang.sin().view(shape).to(x.dtype)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def sdpa(Q: Tensor, K: Tensor, V: Tensor, S: Tensor, sm_scale: float, window: int = 0) -> Tensor:
    """Q [n, kv, group, d], K and V [n, kv, d], S [kv*group] sink logits.

    Causal.  window = 0 means unlimited.
    """
    n_tokens, n_heads, q_mult, d_head = Q.shape
    K = K[:, :, None, :].expand(-1, -1, q_mult, -1)
    V = V[:, :, None, :].expand(-1, -1, q_mult, -1)
    S = S.reshape(n_heads, q_mult, 1, 1).expand(-1, -1, n_tokens, -1)
    mask = torch.triu(Q.new_full((n_tokens, n_tokens), -math.inf), diagonal=1)
    if window > 0:
        mask = mask + torch.tril(mask.new_full((n_tokens, n_tokens), -math.inf), diagonal=-window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K) * sm_scale
    QK = QK + mask[None, None, :, :]
    QK = torch.cat([QK, S.to(QK.dtype)], dim=-1)
    W = torch.softmax(QK, dim=-1)
    W = W[..., 1:]
    attn = torch.einsum("hmqk,khmd->qhmd", W, V)
    return attn.reshape(n_tokens, -1)


class AttentionBlock(nn.Module):
    """x [tokens, hidden] -> [tokens, hidden], with residual"""

    def __init__(self, config: ModelConfig, layer_idx: int = 0):
        super().__init__()
        c = config
        self.c = c
        self.window = c.sliding_window if layer_idx % 2 == 0 else 0
        self.sinks = nn.Parameter(torch.randn(c.num_attention_heads))
        self.norm = nn.RMSNorm(c.hidden_size, eps=1e-5)
        width = c.head_dim * (c.num_attention_heads + 2 * c.num_key_value_heads)
        self.qkv = nn.Linear(c.hidden_size, width)
        self.out = nn.Linear(c.head_dim * c.num_attention_heads, c.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        c = self.c
        t = self.norm(x)
        sizes = [c.num_attention_heads * c.head_dim] + [c.num_key_value_heads * c.head_dim] * 2
        q, k, v = self.qkv(t).split(sizes, dim=-1)
        q = q.view(-1, c.num_key_value_heads, c.num_attention_heads // c.num_key_value_heads, c.head_dim)
        k = k.view(-1, c.num_key_value_heads, c.head_dim)
        v = v.view(-1, c.num_key_value_heads, c.head_dim)
        q, k = rope(q, c.rope_theta), rope(k, c.rope_theta)
        t = sdpa(q, k, v, self.sinks, 1 / math.sqrt(c.head_dim), self.window)
        return x + self.out(t)


def build(config: ModelConfig = ModelConfig()) -> nn.Sequential:
    return nn.Sequential(*[AttentionBlock(config, i) for i in range(config.num_layers)])
