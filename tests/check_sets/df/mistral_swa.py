import torch
import torch.nn as nn
from dataclasses import dataclass


@dataclass
class Args:
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    window: int = 4      # tokens a query reads, its own included
    theta: float = 1e4


class SlidingAttn(nn.Module):
    """Mistral 7B attention, prefill only: query i reads the last `window` tokens, i itself among them."""

    def __init__(self, args: Args = Args()):
        super().__init__()
        self.a = args
        self.hd = args.dim // args.n_heads
        kv = args.n_kv_heads * self.hd
        self.wq = nn.Linear(args.dim, args.dim, bias=False)
        self.wk, self.wv = nn.Linear(args.dim, kv, bias=False), nn.Linear(args.dim, kv, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)

    def rot(self, x):
        L, d = x.shape[-2:]
        ang = torch.outer(torch.arange(L, device=x.device), self.a.theta ** (-torch.arange(0, d, 2, device=x.device) / d))
        z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2)

    def forward(self, x):
        B, L, _ = x.shape
        a = self.a
        q = self.rot(self.wq(x).view(B, L, a.n_heads, self.hd).transpose(1, 2))
        k = self.rot(self.wk(x).view(B, L, a.n_kv_heads, self.hd).transpose(1, 2))
        v = self.wv(x).view(B, L, a.n_kv_heads, self.hd).transpose(1, 2)
        q = q.view(B, a.n_kv_heads, -1, L, self.hd)
        s = torch.einsum("bgrid,bgjd->bgrij", q, k) * self.hd ** -0.5
        i = torch.arange(L, device=x.device)
        back = i[:, None] - i[None, :]
        s = s.masked_fill((back < 0) | (back > a.window), float("-inf"))
        y = torch.einsum("bgrij,bgjd->bgrid", s.softmax(-1), v)
        return self.wo(y.reshape(B, a.n_heads, L, self.hd).transpose(1, 2).flatten(2))
