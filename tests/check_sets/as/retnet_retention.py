"""Multi-scale retention (Sun et al., 2023): parallel, recurrent and chunkwise forms.

Retention has no softmax: (Q K^T * D) V with D[n, m] = gamma^(n - m) for n >= m and 0
above the diagonal. Keys are scaled by head_dim ** -0.5 and the heads are normalised
by a group norm afterwards. All three forms give the same numbers.
"""
from collections import namedtuple

import torch
from torch import nn

RetArgs = namedtuple("RetArgs", "dim heads chunk", defaults=(64, 4, 16))


def make_gammas(heads):
    return 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64))


def decay_matrix(n, gamma, dtype):
    """[heads, n, n]"""
    i = torch.arange(n, device=gamma.device)
    diff = i[:, None] - i[None, :]
    d = gamma[:, None, None] ** diff.clamp_min(0)
    return d.masked_fill(diff < 0, 0.0).to(dtype)


class MultiScaleRetention(nn.Module):
    def __init__(self, args: RetArgs):
        super().__init__()
        self.args = args
        self.hd = args.dim // args.heads
        self.q_proj = nn.Linear(args.dim, args.dim, bias=False)
        self.k_proj = nn.Linear(args.dim, args.dim, bias=False)
        self.v_proj = nn.Linear(args.dim, args.dim, bias=False)
        self.g_proj = nn.Linear(args.dim, args.dim, bias=False)
        self.out_proj = nn.Linear(args.dim, args.dim, bias=False)
        self.group_norm = nn.GroupNorm(args.heads, args.dim, affine=False)
        self.register_buffer("gamma", make_gammas(args.heads), persistent=False)

    def _qkv(self, x):
        b, n, _ = x.shape
        s = lambda t: t.view(b, n, self.args.heads, self.hd).transpose(1, 2)
        return s(self.q_proj(x)), s(self.k_proj(x)) * self.hd**-0.5, s(self.v_proj(x))

    def _finish(self, x, o):
        b, h, n, d = o.shape
        o = self.group_norm(o.transpose(1, 2).reshape(b * n, h * d)).view(b, n, h * d)
        return self.out_proj(torch.nn.functional.silu(self.g_proj(x)) * o)

    def retain_parallel(self, q, k, v):
        return (q @ k.mT * decay_matrix(q.shape[2], self.gamma, q.dtype)) @ v

    def retain_step(self, q, k, v, state):
        """One position; state [b, h, d_k, d_v]."""
        g = self.gamma.to(q.dtype)[None, :, None, None]
        state = g * state + k.transpose(-1, -2) @ v
        return q @ state, state

    def retain_chunks(self, q, k, v):
        c, state, outs = self.args.chunk, 0.0, []
        for lo in range(0, q.shape[2], c):
            qc, kc, vc = (t[:, :, lo : lo + c] for t in (q, k, v))
            n = qc.shape[2]
            i = torch.arange(n, device=q.device)
            g = self.gamma[:, None]
            inner = self.retain_parallel(qc, kc, vc)
            if lo:
                inner = inner + (qc * (g ** (i + 1)).to(q.dtype)[None, :, :, None]) @ state
            k_dec = kc * (g ** (n - 1 - i)).to(q.dtype)[None, :, :, None]
            state = (self.gamma**n).to(q.dtype)[None, :, None, None] * state + k_dec.mT @ vc
            outs.append(inner)
        return torch.cat(outs, 2)

    def forward(self, x, mode="parallel"):
        q, k, v = self._qkv(x)
        if mode == "parallel":
            return self._finish(x, self.retain_parallel(q, k, v))
        if mode == "chunk":
            return self._finish(x, self.retain_chunks(q, k, v))
        state = q.new_zeros(q.shape[0], self.args.heads, self.hd, self.hd)
        steps = []
        for t in range(x.shape[1]):
            o, state = self.retain_step(q[:, :, t : t + 1], k[:, :, t : t + 1], v[:, :, t : t + 1], state)
            steps.append(o)
        return self._finish(x, torch.cat(steps, 2))
