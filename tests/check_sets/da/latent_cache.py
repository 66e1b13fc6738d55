from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class LatentConfig:
    hidden: int = 32
    heads: int = 4
    rank: int = 12        # size of the cached latent
    nope: int = 6         # per-head part without position
    rope: int = 4         # part with position, one key shared by all heads
    value: int = 5
    base: float = 10000.0


def spin(x, start, base):
    # x: (B, T, ..., r); neighbouring channels form a complex number
    r, T = x.shape[-1], x.shape[1]
    freq = base ** (-torch.arange(0, r, 2, dtype=torch.float32, device=x.device) / r)
    ang = torch.arange(start, start + T, dtype=torch.float32, device=x.device)[:, None] * freq
    ang = ang.view(1, T, *([1] * (x.dim() - 3)), r // 2)
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], r // 2, 2).contiguous())
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


class LatentAttention(nn.Module):
    """Multi-head latent attention, absorbed form: scores are taken in latent space.

    forward(x, cache) -> (y, cache).  x is (B, T, hidden); cache is None or the
    (latent, key_rope) pair of all the earlier tokens.  Causal.
    """

    def __init__(self, cfg: LatentConfig = LatentConfig()):
        super().__init__()
        self.cfg = cfg
        self.q_proj = nn.Linear(cfg.hidden, cfg.heads * (cfg.nope + cfg.rope), bias=False)
        self.down = nn.Linear(cfg.hidden, cfg.rank + cfg.rope, bias=False)
        self.norm = nn.RMSNorm(cfg.rank)
        self.up_k = nn.Parameter(torch.randn(cfg.heads, cfg.nope, cfg.rank) * cfg.rank ** -0.5)
        self.up_v = nn.Parameter(torch.randn(cfg.heads, cfg.value, cfg.rank) * cfg.rank ** -0.5)
        self.o_proj = nn.Linear(cfg.heads * cfg.value, cfg.hidden, bias=False)

    def forward(self, x, cache=None):
        c = self.cfg
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        q = self.q_proj(x).view(B, T, c.heads, c.nope + c.rope)
        q_n, q_r = q.split([c.nope, c.rope], dim=-1)
        lat, k_r = self.down(x).split([c.rank, c.rope], dim=-1)
        lat = self.norm(lat)
        q_r, k_r = spin(q_r, past, c.base), spin(k_r, past, c.base)
        if cache is not None:
            lat = torch.cat([cache[0], lat], 1)
            k_r = torch.cat([cache[1], k_r], 1)
        s = torch.einsum("bthn,hnr,bsr->bhts", q_n, self.up_k, lat)
        s = s + torch.einsum("bthr,bsr->bhts", q_r, k_r)
        s = s * (c.nope + c.rope) ** -0.5
        hide = torch.ones(T, past + T, dtype=torch.bool, device=x.device).triu(past + 1)
        p = s.float().masked_fill(hide, float("-inf")).softmax(-1).to(x.dtype)
        y = torch.einsum("bhts,bsr,hvr->bthv", p, lat, self.up_v)
        return self.o_proj(y.flatten(2)), (lat, k_r)
