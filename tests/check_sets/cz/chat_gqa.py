from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class BotConfig:
    dim: int = 32
    n_head: int = 4
    n_kv: int = 2
    theta: float = 10000.0


def spin(x, pos, theta):
    """Half-split rotary code. x (B, H, T, d), pos (T,)."""
    half = x.shape[-1] // 2
    f = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * f
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    lo, hi = x[..., :half], x[..., half:]
    return torch.cat((lo * c - hi * s, hi * c + lo * s), -1)


class BotReader(nn.Module):
    """Causal self-attention of the chat model.

    `memo` is a plain dict the caller keeps between calls; it is filled with the rotated keys
    and the values. Query head h uses key head h // (n_head // n_kv).
    """

    def __init__(self, cfg: BotConfig = BotConfig()):
        super().__init__()
        self.cfg, self.hd = cfg, cfg.dim // cfg.n_head
        self.q = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.kv = nn.Linear(cfg.dim, 2 * cfg.n_kv * self.hd, bias=False)
        self.o = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x, memo=None):
        B, T, _ = x.shape
        past = memo["k"].size(2) if memo else 0
        pos = torch.arange(past, past + T, device=x.device)
        q = self.q(x).view(B, T, -1, self.hd).transpose(1, 2)
        k, v = self.kv(x).view(B, T, 2, -1, self.hd).permute(2, 0, 3, 1, 4)
        q, k = spin(q, pos, self.cfg.theta), spin(k, pos, self.cfg.theta)
        if memo:
            k, v = torch.cat((memo["k"], k), 2), torch.cat((memo["v"], v), 2)
        if memo is not None:
            memo.update(k=k, v=v)
        rep = self.cfg.n_head // self.cfg.n_kv
        see = torch.arange(past + T, device=x.device) <= pos[:, None]
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1), attn_mask=see)
        return self.o(y.transpose(1, 2).reshape(B, T, -1))
