from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Cfg:
    dim: int = 32
    n_q: int = 4
    n_kv: int = 2
    max_len: int = 64
    max_batch: int = 4
    base: float = 10000.0
    ntk: float = 2.0      # context stretch; 1.0 = plain rotary


class ServeAttention(nn.Module):
    """Inference-only causal attention. Feed the prompt in chunks of any size;
    start is the number of tokens of this batch already in the cache."""

    def __init__(self, c: Cfg):
        super().__init__()
        self.c, self.d = c, c.dim // c.n_q
        self.wq = nn.Linear(c.dim, c.n_q * self.d, bias=False)
        self.wk = nn.Linear(c.dim, c.n_kv * self.d, bias=False)
        self.wv = nn.Linear(c.dim, c.n_kv * self.d, bias=False)
        self.wo = nn.Linear(c.n_q * self.d, c.dim, bias=False)
        base = c.base * c.ntk ** (self.d / (self.d - 2))
        inv = base ** (-torch.arange(0, self.d, 2).float() / self.d)
        ang = torch.outer(torch.arange(c.max_len).float(), inv)
        self.register_buffer("cos", torch.cat([ang, ang], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([ang, ang], -1).sin(), persistent=False)
        shape = (c.max_batch, c.max_len, c.n_kv, self.d)
        self.register_buffer("kc", torch.zeros(shape), persistent=False)
        self.register_buffer("vc", torch.zeros(shape), persistent=False)

    def spin(self, x, start):
        cos = self.cos[start:start + x.shape[1], None]
        sin = self.sin[start:start + x.shape[1], None]
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-b, a], -1) * sin

    @torch.no_grad()
    def forward(self, x, start: int = 0):
        B, T, _ = x.shape
        end = start + T
        q = self.spin(self.wq(x).view(B, T, self.c.n_q, self.d), start)
        k = self.spin(self.wk(x).view(B, T, self.c.n_kv, self.d), start)
        self.kc[:B, start:end] = k
        self.vc[:B, start:end] = self.wv(x).view(B, T, self.c.n_kv, self.d)
        K, V = self.kc[:B, :end], self.vc[:B, :end]
        q = q.view(B, T, self.c.n_kv, self.c.n_q // self.c.n_kv, self.d)
        s = torch.einsum("btgrd,bsgd->bgrts", q, K) * self.d ** -0.5
        future = torch.arange(end, device=x.device)[None] > torch.arange(start, end, device=x.device)[:, None]
        p = s.masked_fill(future, float("-inf")).softmax(-1)
        o = torch.einsum("bgrts,bsgd->btgrd", p, V)
        return self.wo(o.reshape(B, T, -1))
