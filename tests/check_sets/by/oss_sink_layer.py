"""Attention layer of a gpt-oss style model, single file, for studying.

Differences to a LLaMA layer: every head has a learned *sink* logit that takes
part in the softmax and has no value (so the weights of a row sum to less than
one), and layers with an even index see only the last `sliding_window` tokens,
the current one included.  Odd layers see the whole past.
"""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Config:
    hidden_size: int = 32
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 8
    sliding_window: int = 3
    rope_theta: float = 150000.0


class Rope(nn.Module):
    def __init__(self, dim: int, theta: float):
        super().__init__()
        freq = theta ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        self.register_buffer("freq", freq, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        # x: [n, ..., dim]; first half is rotated against second half
        angle = torch.outer(torch.arange(x.shape[0], device=x.device).float(), self.freq)
        angle = angle.reshape(x.shape[0], *([1] * (x.dim() - 2)), -1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


class AttentionBlock(nn.Module):
    """Unbatched: [n_tokens, hidden] -> [n_tokens, hidden], with residual."""

    def __init__(self, config: Config = Config(), layer_idx: int = 0):
        super().__init__()
        c = config
        self.c = c
        self.window = c.sliding_window if layer_idx % 2 == 0 else 0
        self.sinks = nn.Parameter(torch.randn(c.num_attention_heads))
        self.norm = nn.RMSNorm(c.hidden_size, eps=1e-5)
        self.qkv = nn.Linear(
            c.hidden_size, c.head_dim * (c.num_attention_heads + 2 * c.num_key_value_heads)
        )
        self.out = nn.Linear(c.head_dim * c.num_attention_heads, c.hidden_size)
        self.rope = Rope(c.head_dim, c.rope_theta)

    def forward(self, x: Tensor) -> Tensor:
        c, n = self.c, x.shape[0]
        h, hk = c.num_attention_heads, c.num_key_value_heads
        q, k, v = self.qkv(self.norm(x)).split(
            (h * c.head_dim, hk * c.head_dim, hk * c.head_dim), dim=-1
        )
        q = self.rope(q.view(n, hk, h // hk, c.head_dim))
        k = self.rope(k.view(n, hk, c.head_dim))
        v = v.view(n, hk, c.head_dim)

        mask = torch.triu(x.new_full((n, n), float("-inf")), diagonal=1)
        if self.window > 0:
            mask = mask + torch.tril(x.new_full((n, n), float("-inf")), diagonal=-self.window)

        qk = torch.einsum("qkgd,skd->kgqs", q, k) * c.head_dim**-0.5 + mask
        sink = self.sinks.view(hk, h // hk, 1, 1).expand(-1, -1, n, 1)
        w = torch.softmax(torch.cat((qk, sink), dim=-1), dim=-1)[..., :-1]
        y = torch.einsum("kgqs,skd->qkgd", w, v).reshape(n, -1)
        return x + self.out(y)
