from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Cfg:
    n_embd: int = 48
    n_head: int = 4
    base: float = 10000.0


def rotate(x, pos, base):
    """x (B, H, T, d), pos (T,): the pairs are (x_i, x_{i + d/2})."""
    d = x.size(-1)
    inv = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos[:, None].float() * inv
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class SelfAttn(nn.Module):
    def __init__(self, cfg=Cfg()):
        super().__init__()
        self.cfg = cfg
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=False)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias=False)

    def forward(self, x, past=None):
        """x (B, T, C); past = (k, v), each (B, H, P, d), or None. Returns y, (k, v)."""
        B, T, C = x.shape
        H = self.cfg.n_head
        q, k, v = (t.view(B, T, H, C // H).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        P = 0 if past is None else past[0].size(2)
        pos = torch.arange(P, P + T, device=x.device)
        q, k = rotate(q, pos, self.cfg.base), rotate(k, pos, self.cfg.base)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        att = (q @ k.transpose(-2, -1)) / (C // H) ** 0.5
        later = torch.arange(P + T, device=x.device)[None, :] > pos[:, None]
        att = att.masked_fill(later, float("-inf")).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.c_proj(y), (k, v)
