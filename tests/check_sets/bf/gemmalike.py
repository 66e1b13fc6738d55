import torch
import torch.nn as nn
import torch.nn.functional as F

# A "gemma-ish" block for my legal text LM. Config is a plain dict (yaml).
DEFAULT = dict(hidden=48, heads=6, kv_heads=2, head_dim=10, window=4, softcap=20.0,
               theta=10_000.0, query_pre_attn_scalar=10)


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.zeros(d))
        self.eps = eps

    def forward(self, x):
        n = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (n * (1 + self.g.float())).type_as(x)


def rot_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def rope_tables(n, d, theta):
    f = 1.0 / theta ** (torch.arange(0, d, 2).float() / d)
    a = torch.outer(torch.arange(n).float(), f)
    a = torch.cat((a, a), -1)
    return a.cos(), a.sin()


class LocalAttn(nn.Module):
    """Sliding window layer: token i sees i-window+1 ... i (itself included)."""

    def __init__(self, c=None):
        super().__init__()
        c = {**DEFAULT, **(c or {})}
        self.c = c
        H, K, D = c["heads"], c["kv_heads"], c["head_dim"]
        self.q = nn.Linear(c["hidden"], H * D, bias=False)
        self.k = nn.Linear(c["hidden"], K * D, bias=False)
        self.v = nn.Linear(c["hidden"], K * D, bias=False)
        self.o = nn.Linear(H * D, c["hidden"], bias=False)
        self.norm = RMSNorm(c["hidden"])

    def forward(self, x):
        c = self.c
        B, T, _ = x.shape
        H, K, D = c["heads"], c["kv_heads"], c["head_dim"]
        h = self.norm(x)
        q = self.q(h).view(B, T, H, D).transpose(1, 2)
        k = self.k(h).view(B, T, K, D).transpose(1, 2)
        v = self.v(h).view(B, T, K, D).transpose(1, 2)
        cos, sin = rope_tables(T, D, c["theta"])
        q = q * cos + rot_half(q) * sin
        k = k * cos + rot_half(k) * sin
        # group the query heads instead of repeating the kv heads
        q = q.reshape(B, K, H // K, T, D)
        s = torch.einsum("bkgtd,bksd->bkgts", q, k) * c["query_pre_attn_scalar"] ** -0.5
        s = c["softcap"] * torch.tanh(s / c["softcap"])
        i = torch.arange(T)
        dist = i[:, None] - i[None, :]
        ok = (dist >= 0) & (dist < c["window"])
        s = s.masked_fill(~ok, torch.finfo(s.dtype).min)
        p = F.softmax(s, dim=-1, dtype=torch.float32).type_as(v)
        y = torch.einsum("bkgts,bksd->bkgtd", p, v).reshape(B, H, T, D)
        return x + self.o(y.transpose(1, 2).reshape(B, T, H * D))
