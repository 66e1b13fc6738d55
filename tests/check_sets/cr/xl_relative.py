import math

import torch
import torch.nn as nn


def _rel_shift(x):
    b, h, lq, lk = x.shape
    x = nn.functional.pad(x, (1, 0))
    return x.view(b, h, lk + 1, lq)[:, :, 1:].reshape(b, h, lq, lk)


class RelPartialAttn(nn.Module):
    """Transformer-XL attention (Dai et al. 2019, eq. in sec. 3.3), causal, with memory.

    score(i, j) = (q_i + u) . k_j + (q_i + w) . Wr R_{i-j}, divided by sqrt(d_head).
    """

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n, self.d = n_head, d_model // n_head
        self.q_net = nn.Linear(d_model, d_model, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, self.d) * 0.1)
        self.w = nn.Parameter(torch.randn(n_head, self.d) * 0.1)
        inv = 1.0 / (10000 ** (torch.arange(0.0, d_model, 2.0) / d_model))
        self.register_buffer("inv_freq", inv)

    def forward(self, x, mems=None):
        """x: (B, L, D) current segment; mems: (B, M, D) the M steps before it, or None."""
        B, L, D = x.shape
        ctx = x if mems is None else torch.cat([mems.detach(), x], dim=1)
        T = ctx.size(1)
        q = self.q_net(x).view(B, L, self.n, self.d)
        k, v = self.kv_net(ctx).chunk(2, dim=-1)
        k = k.view(B, T, self.n, self.d)
        v = v.view(B, T, self.n, self.d)
        dist = torch.arange(T - 1, -1, -1.0, device=x.device)
        ang = torch.outer(dist, self.inv_freq)
        r = self.r_net(torch.cat([ang.sin(), ang.cos()], dim=-1)).view(T, self.n, self.d)

        ac = torch.einsum("binh,bjnh->bnij", q + self.u, k)
        bd = torch.einsum("binh,jnh->bnij", q + self.w, r)
        s = (ac + _rel_shift(bd)) / math.sqrt(self.d)
        future = torch.ones(L, T, dtype=torch.bool, device=x.device).triu(1 + T - L)
        s = s.masked_fill(future, float("-inf"))
        y = torch.einsum("bnij,bjnh->binh", s.softmax(dim=-1), v)
        return self.o_net(y.reshape(B, L, D))
