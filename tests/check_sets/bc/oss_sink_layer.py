"""Attention with learned per-head sinks, as in the open-weight 20B model.

A sink is one extra logit per head. It takes part in the softmax, and its share of
the probability is thrown away, so rows of the weights sum to less than one.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        t = x.float()
        t = t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + self.eps)
        return (t * self.g).to(x.dtype)


def sdpa(Q, K, V, S, sm_scale, window=0):
    # Q: n h m d  (h kv heads, m queries of each), K, V: n h d, S: (h*m,)
    n, h, m, d = Q.shape
    K = K[:, :, None, :].expand(-1, -1, m, -1)
    V = V[:, :, None, :].expand(-1, -1, m, -1)
    S = S.reshape(h, m, 1, 1).expand(-1, -1, n, -1)
    mask = torch.triu(Q.new_full((n, n), -float("inf")), diagonal=1)
    if window > 0:
        # `window` tokens including the current one
        mask = mask + torch.tril(mask.new_full((n, n), -float("inf")), diagonal=-window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K) * sm_scale
    QK = QK + mask[None, None]
    QK = torch.cat([QK, S], dim=-1)
    W = F.softmax(QK.float(), dim=-1).to(V.dtype)[..., :-1]
    return torch.einsum("hmqk,khmd->qhmd", W, V).reshape(n, -1)


class SinkAttention(nn.Module):
    """x: (tokens, hidden), one unbatched causal sequence."""

    def __init__(self, hidden=64, n_q=8, n_kv=2, head=8, window=0):
        super().__init__()
        self.hidden, self.n_q, self.n_kv, self.head, self.window = hidden, n_q, n_kv, head, window
        self.norm = RMSNorm(hidden)
        self.sinks = nn.Parameter(torch.randn(n_q))
        self.qkv = nn.Linear(hidden, head * (n_q + 2 * n_kv))
        self.out = nn.Linear(head * n_q, hidden)
        self.sm_scale = 1 / math.sqrt(head)

    def forward(self, x):
        t = self.qkv(self.norm(x))
        a, b = self.n_q * self.head, self.n_kv * self.head
        q, k, v = t.split([a, b, b], dim=-1)
        q = q.view(-1, self.n_kv, self.n_q // self.n_kv, self.head)
        k = k.view(-1, self.n_kv, self.head)
        v = v.view(-1, self.n_kv, self.head)
        return x + self.out(sdpa(q, k, v, self.sinks, self.sm_scale, self.window))
