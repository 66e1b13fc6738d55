from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class CodeLMConfig:
    n_embd: int = 32
    n_head: int = 4      # a power of two
    block_size: int = 64


class CausalALiBiAttention(nn.Module):
    """Autoregressive attention with linear biases ("Train Short, Test Long", Press et al. 2022).

    The prediction at position t may use tokens 0..t and nothing later; nearer tokens are favoured.
    """

    def __init__(self, cfg: CodeLMConfig):
        super().__init__()
        self.n_head = cfg.n_head
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd)
        slopes = 2.0 ** (-8.0 * torch.arange(1, cfg.n_head + 1) / cfg.n_head)
        pos = torch.arange(cfg.block_size)
        dist = (pos[:, None] - pos[None, :]).float()
        self.register_buffer("alibi", slopes[:, None, None] * dist, persistent=False)
        block = torch.ones(cfg.block_size, cfg.block_size, dtype=torch.bool)
        self.register_buffer("hidden", torch.triu(block, diagonal=2), persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-2, -1) / (C // self.n_head) ** 0.5
        att = att + self.alibi[:, :T, :T]
        att = att.masked_fill(self.hidden[:T, :T], float("-inf"))
        y = att.softmax(dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))
