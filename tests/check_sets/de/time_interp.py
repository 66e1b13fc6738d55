"""Interpolation of irregularly sampled vitals onto reference times (mTAN style)."""
import math
import torch
import torch.nn as nn


class TimeEmbed(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(1, 1)
        self.per = nn.Linear(1, d - 1)

    def forward(self, t):
        t = t.unsqueeze(-1)
        return torch.cat([self.lin(t), torch.sin(self.per(t))], dim=-1)


class RefInterp(nn.Module):
    def __init__(self, n_chan, n_out, d_time=16, heads=2):
        super().__init__()
        assert d_time % heads == 0
        self.h, self.dk = heads, d_time // heads
        self.embed = TimeEmbed(d_time)
        self.to_q = nn.Linear(d_time, d_time)
        self.to_k = nn.Linear(d_time, d_time)
        self.out = nn.Linear(heads * n_chan, n_out)

    def forward(self, t_ref, t_obs, x, seen):
        """
        t_ref: (R,) shared reference times
        t_obs: (B, T) observation times
        x:     (B, T, C) values, anything where not seen
        seen:  (B, T, C) bool, each channel is observed at its own times
        returns (B, R, n_out)
        """
        B, T, C = x.shape
        q = self.to_q(self.embed(t_ref)).view(-1, self.h, self.dk).transpose(0, 1)     # h R dk
        k = self.to_k(self.embed(t_obs)).view(B, T, self.h, self.dk).transpose(1, 2)   # B h T dk
        s = q @ k.transpose(-1, -2) / math.sqrt(self.dk)                               # B h R T
        s = s.unsqueeze(-1).expand(-1, -1, -1, -1, C)
        ok = seen[:, None, None]                                                       # B 1 1 T C
        s = s.masked_fill(~ok, torch.finfo(s.dtype).min)
        p = torch.softmax(s, dim=-2) * ok            # a channel never seen gives zeros
        val = torch.where(seen, x, torch.zeros_like(x))
        y = torch.einsum("bhrtc,btc->brhc", p, val)
        return self.out(y.flatten(2))
