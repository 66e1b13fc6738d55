# stripped down from my local inference repo
from dataclasses import dataclass
import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class Args:
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    theta: float = 10000.0


def rope(x, start, theta):
    # x: (B, T, H, D), NeoX layout (first half / second half)
    D = x.shape[-1]
    inv = theta ** (-torch.arange(0, D, 2, device=x.device).float() / D)
    pos = torch.arange(start, start + x.shape[1], device=x.device).float()
    ang = torch.outer(pos, inv)[None, :, None, :]
    c, s = ang.cos(), ang.sin()
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1).type_as(x)


class SelfAttn(nn.Module):
    def __init__(self, args: Args = Args()):
        super().__init__()
        self.a = args
        self.hd = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(args.n_heads * self.hd, args.dim, bias=False)

    def forward(self, x, past=None):
        """x: (B, T, dim); past: None or the (k, v) returned by the call before.
        Returns the output (B, T, dim) and the new (k, v), each (B, T_all, n_kv_heads, hd)."""
        B, T, _ = x.shape
        start = 0 if past is None else past[0].shape[1]
        q = rope(self.wq(x).view(B, T, self.a.n_heads, self.hd), start, self.a.theta)
        k = rope(self.wk(x).view(B, T, self.a.n_kv_heads, self.hd), start, self.a.theta)
        v = self.wv(x).view(B, T, self.a.n_kv_heads, self.hd)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        rep = self.a.n_heads // self.a.n_kv_heads
        kk = k.repeat_interleave(rep, dim=2).transpose(1, 2)
        vv = v.repeat_interleave(rep, dim=2).transpose(1, 2)
        ok = torch.ones(T, start + T, dtype=torch.bool, device=x.device).tril(diagonal=start)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), kk, vv, attn_mask=ok)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1)), (k, v)
