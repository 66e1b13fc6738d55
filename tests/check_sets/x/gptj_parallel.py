from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GPTConfig:
    n_embd: int = 64
    n_head: int = 4
    rotary_dim: int = 8
    max_seq: int = 128
    attn_pdrop: float = 0.0
    bias: bool = False


def rotate_every_two(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


class ParallelBlock(nn.Module):
    """x + attn(ln(x)) + mlp(ln(x)): one norm, one fused input projection, no biases."""

    def __init__(self, cfg: GPTConfig):
        super().__init__()
        assert cfg.n_embd % cfg.n_head == 0
        self.cfg = cfg
        self.hd = cfg.n_embd // cfg.n_head
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.fused = nn.Linear(cfg.n_embd, 3 * cfg.n_embd + 4 * cfg.n_embd, bias=cfg.bias)
        self.attn_out = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.ff_out = nn.Linear(4 * cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.drop = nn.Dropout(cfg.attn_pdrop)
        inv = 1.0 / (10000 ** (torch.arange(0, cfg.rotary_dim, 2).float() / cfg.rotary_dim))
        ang = torch.outer(torch.arange(cfg.max_seq).float(), inv)
        self.register_buffer("sin", ang.sin().repeat_interleave(2, -1), persistent=False)
        self.register_buffer("cos", ang.cos().repeat_interleave(2, -1), persistent=False)
        mask = torch.tril(torch.ones(cfg.max_seq, cfg.max_seq, dtype=torch.bool))
        self.register_buffer("mask", mask[None, None], persistent=False)

    def _rope(self, t):
        r = self.cfg.rotary_dim
        T = t.size(-2)
        rot, keep = t[..., :r], t[..., r:]
        rot = rot * self.cos[:T] + rotate_every_two(rot) * self.sin[:T]
        return torch.cat((rot, keep), dim=-1)

    def forward(self, x):
        B, T, C = x.size()
        h = self.ln(x)
        q, k, v, ff = self.fused(h).split([C, C, C, 4 * C], dim=-1)
        q = q.view(B, T, self.cfg.n_head, self.hd).transpose(1, 2)
        k = k.view(B, T, self.cfg.n_head, self.hd).transpose(1, 2)
        v = v.view(B, T, self.cfg.n_head, self.hd).transpose(1, 2)
        q, k = self._rope(q), self._rope(k)
        w = (q @ k.transpose(-1, -2)) * self.hd ** -0.5
        w = w.masked_fill(~self.mask[:, :, :T, :T], torch.finfo(w.dtype).min)
        w = self.drop(F.softmax(w, dim=-1))
        y = (w @ v).transpose(1, 2).contiguous().view(B, T, C)
        return x + self.attn_out(y) + self.ff_out(F.gelu(ff))
