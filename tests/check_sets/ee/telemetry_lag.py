"""Telemetry of a satellite: every sample is explained by earlier ones, one head per lag law.

LagBank(f, n_heads, e, p=0.1):  f sensors, e features per head

forward(z):  z (T, B, f), time first  ->  (T, B, f)
    Sample t reads samples 0..t (itself too, never a later one).
    Every head has its own projections and a learned half-life: its logits are
    q_t.k_s / sqrt(e) - softplus(rate) * (t - s).
    Softmax over s, in float32 even when the telemetry comes as half.
    Dropout (rate p) acts on the shares, in training mode only.
    The heads are concatenated and projected back to the f sensors.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LagHead(nn.Module):
    def __init__(self, f, e, p):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(f, e), nn.Linear(f, e), nn.Linear(f, e)
        self.rate = nn.Parameter(torch.tensor(-1.0))
        self.drop = nn.Dropout(p)

    def forward(self, z):
        q, k, v = self.q(z), self.k(z), self.v(z)                    # (T, B, e)
        t = torch.arange(z.shape[0], device=z.device)
        lag = t.unsqueeze(1) - t                                     # (T, T), >= 0 is the past
        s = torch.einsum("tbe,sbe->bts", q.float(), k.float()) * q.shape[-1] ** -0.5
        s = s - F.softplus(self.rate.float()) * lag
        s = s.masked_fill(lag < 0, float("-inf"))
        a = self.drop(s.softmax(dim=-1)).to(v.dtype)
        return torch.einsum("bts,sbe->tbe", a, v)


class LagBank(nn.Module):
    def __init__(self, f, n_heads, e, p=0.1):
        super().__init__()
        self.bank = nn.ModuleList(LagHead(f, e, p) for _ in range(n_heads))
        self.down = nn.Linear(n_heads * e, f)

    def forward(self, z):
        return self.down(torch.cat([h(z) for h in self.bank], dim=-1))
