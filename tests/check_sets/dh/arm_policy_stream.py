"""Autoregressive action head for the 6-axis arm, runs on the controller one tick at a time."""
from dataclasses import dataclass
from typing import Optional, Tuple
import torch
from torch import nn, Tensor


@dataclass(frozen=True)
class ArmConfig:
    d_model: int = 32
    q_heads: int = 4
    kv_heads: int = 2
    base: float = 10000.0


def rotate(x: Tensor, pos: Tensor, base: float) -> Tensor:
    """x (B, H, T, d), pairs are (i, i + d/2)."""
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    ang = pos.to(torch.float32)[:, None] * freq
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


class TickMixer(nn.Module):
    def __init__(self, cfg: ArmConfig = ArmConfig()):
        super().__init__()
        self.cfg = cfg
        self.d = cfg.d_model // cfg.q_heads
        self.wq = nn.Linear(cfg.d_model, cfg.q_heads * self.d, bias=False)
        self.wk = nn.Linear(cfg.d_model, cfg.kv_heads * self.d, bias=False)
        self.wv = nn.Linear(cfg.d_model, cfg.kv_heads * self.d, bias=False)
        self.wo = nn.Linear(cfg.q_heads * self.d, cfg.d_model, bias=False)

    def forward(self, x: Tensor, past: Optional[Tuple[Tensor, Tensor]] = None):
        """x (B, T, d_model), past (k, v) each (B, kv_heads, S, d) -> (B, T, d_model), new past."""
        B, T, _ = x.shape
        start = 0 if past is None else past[0].shape[2]
        pos = torch.arange(start, start + T, device=x.device)
        q = self.wq(x).view(B, T, self.cfg.q_heads, self.d).transpose(1, 2)
        k = self.wk(x).view(B, T, self.cfg.kv_heads, self.d).transpose(1, 2)
        v = self.wv(x).view(B, T, self.cfg.kv_heads, self.d).transpose(1, 2)
        q, k = rotate(q, pos, self.cfg.base), rotate(k, pos, self.cfg.base)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        new = (k, v)
        rep = self.cfg.q_heads // self.cfg.kv_heads
        k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
        see = torch.arange(start + T, device=x.device)[None, :] <= pos[:, None]
        s = (q @ k.mT / self.d ** 0.5).masked_fill(~see, float("-inf"))
        y = torch.softmax(s, dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, -1)), new
