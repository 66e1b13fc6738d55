"""Sliding window attention with learned sinks, eager version of the chat model's odd layers."""
import torch
from torch import nn
import torch.nn.functional as F


class RMS(nn.Module):
    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(n))

    def forward(self, x):
        t = x.float()
        t = t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + self.eps)
        return (t * self.scale).to(x.dtype)


def sdpa_with_sink(Q, K, V, S, sm_scale, sliding_window=0):
    # Q [n, kv, mult, d]   K, V [n, kv, d]   S [kv * mult]
    # sliding_window = number of tokens a token can see, itself included (0: no limit)
    n, kv, mult, d = Q.shape
    K = K[:, :, None, :].expand(-1, -1, mult, -1)
    V = V[:, :, None, :].expand(-1, -1, mult, -1)
    S = S.reshape(kv, mult, 1, 1).expand(-1, -1, n, -1)
    mask = torch.triu(Q.new_full((n, n), -float("inf")), diagonal=1)
    if sliding_window > 0:
        mask = mask + torch.tril(mask.new_full((n, n), -float("inf")), diagonal=-sliding_window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K)
    QK = QK * sm_scale + mask[None, None]
    # the sink only takes probability away, it has no value
    QK = torch.cat([QK, S.to(QK.dtype)], dim=-1)
    W = torch.softmax(QK, dim=-1)[..., :-1]
    return torch.einsum("hmqk,khmd->qhmd", W, V).reshape(n, -1)


class SinkAttention(nn.Module):
    def __init__(self, hidden=64, heads=4, kv_heads=2, head_dim=16, window=4, theta=150000.0):
        super().__init__()
        self.heads, self.kv, self.d, self.window, self.theta = heads, kv_heads, head_dim, window, theta
        self.norm = RMS(hidden)
        self.sinks = nn.Parameter(torch.randn(heads))
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * head_dim)
        self.out = nn.Linear(heads * head_dim, hidden)

    def _rope(self, x):
        n, d = x.shape[0], x.shape[-1]
        f = 1.0 / self.theta ** (torch.arange(0, d, 2, device=x.device).float() / d)
        a = torch.arange(n, device=x.device).float()[:, None] * f
        c, s = a.cos()[:, None], a.sin()[:, None]
        x1, x2 = x.float().chunk(2, dim=-1)
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1).to(x.dtype)

    def forward(self, x):
        """x: [tokens, hidden] -- one sequence, the server does not batch prefill"""
        t = self.qkv(self.norm(x))
        q, k, v = t.split([self.heads * self.d, self.kv * self.d, self.kv * self.d], dim=-1)
        n = x.shape[0]
        q = self._rope(q.view(n, self.heads, self.d)).view(n, self.kv, self.heads // self.kv, self.d)
        k = self._rope(k.view(n, self.kv, self.d))
        v = v.view(n, self.kv, self.d)
        y = sdpa_with_sink(q, k, v, self.sinks, self.d ** -0.5, self.window)
        return x + self.out(y)
