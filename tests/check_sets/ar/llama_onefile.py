"""LLaMA-style decoder in one file, for my own understanding.  Grouped KV heads, rotary
embedding in the Meta layout (neighbouring pairs (0,1), (2,3), ...), static KV cache."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Args:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    max_bsz: int = 4
    max_len: int = 64
    theta: float = 10000.0


def angles(head_dim, n, theta):
    inv = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    t = torch.outer(torch.arange(n).float(), inv)
    return t.cos(), t.sin()


def rotate(x, cos, sin):
    # x: b, l, h, d   cos/sin: l, d/2
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, a: Args):
        super().__init__()
        self.nh, self.nkv, self.hd = a.n_heads, a.n_kv_heads, a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, self.nh * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, self.nkv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, self.nkv * self.hd, bias=False)
        self.wo = nn.Linear(self.nh * self.hd, a.dim, bias=False)
        self.register_buffer("ck", torch.zeros(a.max_bsz, a.max_len, self.nkv, self.hd), persistent=False)
        self.register_buffer("cv", torch.zeros(a.max_bsz, a.max_len, self.nkv, self.hd), persistent=False)
        cos, sin = angles(self.hd, a.max_len, a.theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, start):
        """x: (b, l, dim), the tokens at absolute positions start .. start + l - 1"""
        b, l, _ = x.shape
        end = start + l
        q = self.wq(x).view(b, l, self.nh, self.hd)
        k = self.wk(x).view(b, l, self.nkv, self.hd)
        v = self.wv(x).view(b, l, self.nkv, self.hd)
        q = rotate(q, self.cos[start:end], self.sin[start:end])
        k = rotate(k, self.cos[start:end], self.sin[start:end])
        with torch.no_grad():
            self.ck[:b, start:end] = k
            self.cv[:b, start:end] = v
        k = torch.cat((self.ck[:b, :start], k), dim=1)
        v = torch.cat((self.cv[:b, :start], v), dim=1)

        rep = self.nh // self.nkv
        q = q.view(b, l, self.nkv, rep, self.hd)
        s = torch.einsum("bigrd,bjgd->bgrij", q, k).float() / self.hd ** 0.5
        keep = torch.arange(end, device=x.device) <= torch.arange(start, end, device=x.device)[:, None]
        s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
        p = F.softmax(s, dim=-1).to(v.dtype)
        o = torch.einsum("bgrij,bjgd->bigrd", p, v)
        return self.wo(o.reshape(b, l, -1))


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.w, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return self.w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn, self.n1, self.n2 = Attention(a), RMSNorm(a.dim), RMSNorm(a.dim)
        self.w1, self.w2, self.w3 = (nn.Linear(*s, bias=False) for s in
                                     ((a.dim, 3 * a.dim), (3 * a.dim, a.dim), (a.dim, 3 * a.dim)))

    def forward(self, x, start=0):
        x = x + self.attn(self.n1(x), start)
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


if __name__ == "__main__":
    m = Layer(Args()).eval()
    x = torch.randn(2, 6, 64)
    full = m(x)
    m(x[:, :4])
    print((m(x[:, 4:], 4) - full[:, 4:]).abs().max())
