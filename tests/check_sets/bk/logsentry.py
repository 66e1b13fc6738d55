"""LogSentry -- anomaly scores for syslog streams.

>>> cfg = SentryConfig(vocab=50, window=8)
>>> model = LogSentry(cfg)
"""
from __future__ import annotations

import dataclasses
import re

import torch
from torch import nn
from torch.nn import functional as F

_NUM = re.compile(r"0x[0-9a-f]+|\d+")


def template(line: str) -> str:
    """'sshd[812]: port 22' -> 'sshd[<*>]: port <*>'"""
    return _NUM.sub("<*>", line.lower())


@dataclasses.dataclass
class SentryConfig:
    vocab: int
    dim: int = 32
    heads: int = 4
    layers: int = 2
    window: int = 8
    """every event sees this many events: itself and the window - 1 before it"""
    dropout: float = 0.1

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


def local_mask(n: int, window: int, device=None) -> torch.Tensor:
    i = torch.arange(n, device=device)
    back = i[:, None] - i[None, :]
    return (back >= 0) & (back <= window)


class LocalAttention(nn.Module):
    """Causal attention within ``cfg.window``, x [B, N, dim]."""

    def __init__(self, cfg: SentryConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.in_proj = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out_proj = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c = self.cfg
        b, n, _ = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(b, n, c.heads, c.head_dim).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=local_mask(n, c.window, x.device),
            dropout_p=c.dropout if self.training else 0.0,
        )
        return self.out_proj(y.transpose(1, 2).reshape(b, n, c.dim))


class LogSentry(nn.Module):
    def __init__(self, cfg: SentryConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(LocalAttention(cfg) for _ in range(cfg.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.layers))
        self.head = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, events: torch.Tensor) -> torch.Tensor:
        x = self.embed(events)
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return self.head(x)

    @torch.no_grad()
    def surprise(self, events: torch.Tensor) -> torch.Tensor:
        """-log p(event_t | past), [B, N - 1]"""
        self.eval()
        logp = self(events[:, :-1]).log_softmax(-1)
        return -logp.gather(-1, events[:, 1:, None]).squeeze(-1)
