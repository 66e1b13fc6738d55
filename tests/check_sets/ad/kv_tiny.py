from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class Cfg:
    dim: int = 64
    n_q: int = 8
    n_kv: int = 2
    max_seq: int = 256
    base: float = 10000.0

    @property
    def hd(self):
        return self.dim // self.n_q


class KV:
    """append-only cache, (b, t, n_kv, hd)"""

    def __init__(self):
        self.k: Optional[torch.Tensor] = None
        self.v: Optional[torch.Tensor] = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[1]

    def push(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], 1)
        self.v = v if self.v is None else torch.cat([self.v, v], 1)
        return self.k, self.v


def phases(hd, n, base):
    w = base ** (-torch.arange(0, hd, 2).double() / hd)
    ang = torch.outer(torch.arange(n).double(), w)
    return torch.polar(torch.ones_like(ang), ang).to(torch.complex64)


def turn(x, ph):
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * ph[None, :, None]).flatten(-2).type_as(x)


class GroupedSelf(nn.Module):
    """Causal grouped-query attention. Query heads g*G .. g*G+G-1 read kv head g.

    Feed the prompt first and then any number of new tokens with the same cache.
    """

    def __init__(self, cfg: Cfg):
        super().__init__()
        self.c = cfg
        self.q = nn.Linear(cfg.dim, cfg.n_q * cfg.hd, bias=False)
        self.kv = nn.Linear(cfg.dim, 2 * cfg.n_kv * cfg.hd, bias=False)
        self.o = nn.Linear(cfg.n_q * cfg.hd, cfg.dim, bias=False)
        self.register_buffer("ph", phases(cfg.hd, cfg.max_seq, cfg.base), persistent=False)

    def forward(self, x, cache: Optional[KV] = None):
        c, (b, t, _) = self.c, x.shape
        past = len(cache) if cache is not None else 0
        here = self.ph[past:past + t]
        q = turn(self.q(x).view(b, t, c.n_q, c.hd), here)
        k, v = self.kv(x).view(b, t, 2, c.n_kv, c.hd).unbind(2)
        k = turn(k, here)
        if cache is not None:
            k, v = cache.push(k, v)

        q = q.view(b, t, c.n_kv, c.n_q // c.n_kv, c.hd)
        s = torch.einsum("btngd,bsnd->bngts", q, k).float() * c.hd ** -0.5
        rows = torch.arange(past, past + t, device=x.device)
        cols = torch.arange(k.shape[1], device=x.device)
        s = s.masked_fill(cols > rows[:, None], float("-inf"))
        y = torch.einsum("bngts,bsnd->btngd", s.softmax(-1).to(v.dtype), v)
        return self.o(y.flatten(2))
