from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class CompleterConfig:
    width: int = 48
    n_head: int = 6
    n_kv: int = 2
    max_batch: int = 4
    max_len: int = 64
    theta: float = 10000.0


def spin(x, angle):
    """Rotate neighbouring channel pairs (0,1), (2,3), ... of x (B, L, H, D) by angle (L, D/2)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    c, s = angle.cos()[None, :, None], angle.sin()[None, :, None]
    return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)


class CachedSelfAttention(nn.Module):
    """Grouped-query causal attention for token-by-token completion (inference only).

    forward(x, start_pos): x (B, L, width) holds the tokens start_pos .. start_pos+L-1, and
    everything before start_pos must already have gone through this layer.
    """

    def __init__(self, cfg: CompleterConfig):
        super().__init__()
        self.cfg = cfg
        self.hd = cfg.width // cfg.n_head
        self.wq = nn.Linear(cfg.width, cfg.n_head * self.hd, bias=False)
        self.wk = nn.Linear(cfg.width, cfg.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(cfg.width, cfg.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(cfg.n_head * self.hd, cfg.width, bias=False)
        shape = (cfg.max_batch, cfg.max_len, cfg.n_kv, self.hd)
        self.register_buffer("ck", torch.zeros(shape), persistent=False)
        self.register_buffer("cv", torch.zeros(shape), persistent=False)
        self.register_buffer("freq", cfg.theta ** (-torch.arange(0, self.hd, 2) / self.hd))

    @torch.no_grad()
    def forward(self, x, start_pos=0):
        b, l, _ = x.shape
        end = start_pos + l
        pos = torch.arange(start_pos, end, device=x.device)
        angle = pos[:, None] * self.freq
        q = spin(self.wq(x).view(b, l, -1, self.hd), angle)
        k = spin(self.wk(x).view(b, l, -1, self.hd), angle)
        self.ck[:b, start_pos:end] = k
        self.cv[:b, start_pos:end] = self.wv(x).view(b, l, -1, self.hd)
        k, v = self.ck[:b, :end], self.cv[:b, :end]
        q = q.view(b, l, self.cfg.n_kv, -1, self.hd)
        s = torch.einsum("blgrd,bmgd->bgrlm", q, k) * self.hd ** -0.5
        future = torch.arange(end, device=x.device)[None] > pos[:, None]
        p = s.masked_fill(future, float("-inf")).softmax(-1)
        y = torch.einsum("bgrlm,bmgd->blgrd", p, v)
        return self.wo(y.reshape(b, l, -1))
