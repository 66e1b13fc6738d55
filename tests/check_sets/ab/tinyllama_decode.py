"""Inference-only decoder attention for the converted Llama checkpoints."""
import torch
import torch.nn as nn


class ModelArgs:
    dim = 128
    n_heads = 8
    n_kv_heads = 2
    rope_theta = 10000.0
    max_seq_len = 256
    eps = 1e-5


def precompute_angles(hd, end, theta):
    inv = 1.0 / (theta ** (torch.arange(0, hd, 2).float() / hd))
    ang = torch.outer(torch.arange(end).float(), inv)
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    # x: (b, heads, n, hd); pairs are (0,1), (2,3), ... as in the original release
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.w = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w


class CachedAttention(nn.Module):
    """Grouped-query attention with a growing cache.

    wq rows come grouped as the checkpoint stores them: the first
    n_heads // n_kv_heads query heads share kv head 0, the next ones kv head 1, ...
    Feeding a prompt at once or token by token gives the same hidden states.
    """

    def __init__(self, args=ModelArgs):
        super().__init__()
        self.nh, self.nkv = args.n_heads, args.n_kv_heads
        self.hd = args.dim // args.n_heads
        self.rep = self.nh // self.nkv
        self.wq = nn.Linear(args.dim, self.nh * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, self.nkv * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, self.nkv * self.hd, bias=False)
        self.wo = nn.Linear(self.nh * self.hd, args.dim, bias=False)
        cos, sin = precompute_angles(self.hd, args.max_seq_len, args.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, cache=None):
        """cache is None or the (k, v) pair returned by the previous call"""
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.nh, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, n, self.nkv, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, n, self.nkv, self.hd).transpose(1, 2)

        cos, sin = self.cos[:n], self.sin[:n]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        new_cache = (k, v)

        k = k.repeat(1, self.rep, 1, 1)
        v = v.repeat(1, self.rep, 1, 1)
        s = (q @ k.transpose(2, 3)) * self.hd ** -0.5
        past = k.shape[2] - n
        future = torch.ones(n, k.shape[2], dtype=torch.bool, device=x.device).triu(past + 1)
        s = s.masked_fill(future, float("-inf"))
        p = torch.softmax(s.float(), dim=-1).type_as(q)
        y = (p @ v).transpose(1, 2).reshape(b, n, -1)
        return self.wo(y), new_cache
