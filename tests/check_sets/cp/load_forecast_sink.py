"""Decoder attention for hourly electricity load.

Causal sliding window: hour t sees the hours t-window+1 ... t, i.e. `window`
hours including itself.

Each head also owns a learned *sink* logit. It takes part in the softmax
denominator but has no value vector, so a head can choose to output (almost)
nothing. Row sums of the attention over the hours are therefore below one.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor


@dataclass
class LoadConfig:
    width: int = 32
    n_head: int = 4
    window: int = 24
    attn_dropout: float = 0.0


class SinkWindowAttention(nn.Module):
    def __init__(self, cfg: LoadConfig = LoadConfig()):
        super().__init__()
        self.cfg = cfg
        self.head_width = cfg.width // cfg.n_head
        self.in_proj = nn.Linear(cfg.width, 3 * cfg.width)   # rows: all of q, all of k, all of v
        self.out_proj = nn.Linear(cfg.width, cfg.width)
        self.sink = nn.Parameter(torch.zeros(cfg.n_head))
        self.drop = nn.Dropout(cfg.attn_dropout)

    def visible(self, T: int, device) -> Tensor:
        t = torch.arange(T, device=device)
        age = t[:, None] - t[None, :]
        return (age >= 0) & (age < self.cfg.window)

    def forward(self, hours: Tensor) -> Tensor:
        """hours: [batch, T, width] -> [batch, T, width]"""
        B, T, W = hours.shape
        nh, hw = self.cfg.n_head, self.head_width
        q, k, v = (t.reshape(B, T, nh, hw).transpose(1, 2) for t in self.in_proj(hours).split(W, dim=-1))

        s = q @ k.transpose(2, 3) / math.sqrt(hw)
        s = s.masked_fill(~self.visible(T, hours.device), -math.inf)
        sink = self.sink.view(1, nh, 1, 1).expand(B, nh, T, 1)
        p = torch.cat([s, sink], dim=-1).softmax(dim=-1)
        p = self.drop(p[..., :-1])

        y = (p @ v).transpose(1, 2).contiguous().view(B, T, W)
        return self.out_proj(y)
