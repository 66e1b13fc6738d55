"""Trajectory tokens for the lane-keeping model; at run time one token after another."""
import torch
from torch import nn


def spin(x, pos, theta=500.0):
    """Rotary embedding on adjacent pairs, x (B, H, T, d), pos (T,)."""
    f = theta ** (-torch.arange(0, x.shape[-1], 2, device=x.device) / x.shape[-1])
    a = pos[:, None] * f
    even, odd = x[..., 0::2], x[..., 1::2]
    r = torch.stack([even * a.cos() - odd * a.sin(), even * a.sin() + odd * a.cos()], dim=-1)
    return r.flatten(-2)


class TrajectoryCore(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, past=None):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        pos = torch.arange(t, device=x.device)
        q, k = spin(q, pos), spin(k, pos)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        n = k.shape[2]
        ok = torch.ones(t, n, dtype=torch.bool, device=x.device).tril(n - t)
        w = (q @ k.mT / (c // self.heads) ** 0.5).masked_fill(~ok, float("-inf")).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, c)), (k, v)


class Rollout(nn.Module):
    """start (B, T, dim) -> (B, steps, dim): continues the trajectory for `steps` tokens."""

    def __init__(self, dim=32, heads=4, steps=4):
        super().__init__()
        self.steps = steps
        self.core = TrajectoryCore(dim, heads)
        self.step = nn.Linear(dim, dim)

    def forward(self, start):
        y, past = self.core(start)
        cur, out = self.step(y[:, -1:]), []
        for _ in range(self.steps):
            out.append(cur)
            y, past = self.core(cur, past)
            cur = self.step(y)
        return torch.cat(out, dim=1)
