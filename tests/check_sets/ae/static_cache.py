from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Cfg:
    width: int = 64
    q_heads: int = 8
    kv_heads: int = 2
    max_len: int = 256
    theta: float = 10000.0


class CachedAttention(nn.Module):
    """Grouped-query attention with a preallocated cache and interleaved rotary embedding.

    forward(x, start): x (B, n, width) are tokens start .. start+n-1; all earlier ones are in the cache.
    Inference only.
    """

    def __init__(self, cfg: Cfg, batch: int):
        super().__init__()
        self.cfg = cfg
        d = self.d = cfg.width // cfg.q_heads
        self.q = nn.Linear(cfg.width, cfg.q_heads * d, bias=False)
        self.kv = nn.Linear(cfg.width, 2 * cfg.kv_heads * d, bias=False)
        self.o = nn.Linear(cfg.q_heads * d, cfg.width, bias=False)
        f = cfg.theta ** (-torch.arange(0, d, 2) / d)
        ang = torch.outer(torch.arange(cfg.max_len), f)
        self.register_buffer("rot", torch.polar(torch.ones_like(ang), ang), persistent=False)
        self.register_buffer("K", torch.zeros(batch, cfg.max_len, cfg.kv_heads, d), persistent=False)
        self.register_buffer("V", torch.zeros(batch, cfg.max_len, cfg.kv_heads, d), persistent=False)

    def spin(self, t, start):
        z = torch.view_as_complex(t.unflatten(-1, (-1, 2)))
        z = z * self.rot[start:start + t.size(1)].unsqueeze(1)
        return torch.view_as_real(z).flatten(-2)

    @torch.inference_mode()
    def forward(self, x, start=0):
        B, n, _ = x.shape
        G, R = self.cfg.kv_heads, self.cfg.q_heads // self.cfg.kv_heads
        stop = start + n
        k, v = self.kv(x).view(B, n, 2, G, self.d).unbind(2)
        self.K[:B, start:stop] = self.spin(k, start)
        self.V[:B, start:stop] = v
        q = self.spin(self.q(x).view(B, n, G * R, self.d), start).view(B, n, G, R, self.d)

        s = torch.einsum("bngrd,bmgd->bgrnm", q, self.K[:B, :stop]) * self.d ** -0.5
        ahead = torch.arange(stop, device=x.device) > torch.arange(start, stop, device=x.device)[:, None]
        p = s.masked_fill(ahead, float("-inf")).softmax(-1)
        y = torch.einsum("bgrnm,bmgd->bngrd", p, self.V[:B, :stop])
        return self.o(y.reshape(B, n, -1))
