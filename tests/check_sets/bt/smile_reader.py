"""Reads a patchy implied-volatility surface into a fixed set of latents.

Quotes arrive as (log-moneyness, sqrt maturity, vol, bid/ask width); most cells of a
thin name are empty. `live[b, n]` is True where a quote can be traded on.
"""
from types import SimpleNamespace as NS

import torch
from torch import nn

DEFAULTS = NS(quote_dim=4, width=24, heads=3, latents=5, cap=20.0)


class SoftCap(nn.Module):
    def __init__(self, cap):
        super().__init__()
        self.cap = cap

    def forward(self, z):
        return self.cap * torch.tanh(z / self.cap)


class Switchboard(nn.Module):
    """Lets heads talk: a learned H x H mixing of the head axis, near identity at start."""

    def __init__(self, heads):
        super().__init__()
        self.m = nn.Parameter(torch.eye(heads) + 0.05 * torch.randn(heads, heads))

    def forward(self, t):
        return torch.einsum("bhij,hg->bgij", t, self.m)


class SmileReader(nn.Module):
    """Latents read the quotes (cross attention with talking heads).

    Order of operations: scaled product, soft cap, mixing before the softmax, then empty
    quotes are closed, softmax over quotes, mixing after the softmax. A surface without any
    live quote yields the zero vector before the output projection.
    """

    def __init__(self, cfg=DEFAULTS):
        super().__init__()
        self.cfg = cfg
        w = cfg.width
        self.latents = nn.Parameter(torch.randn(cfg.latents, w) * 0.3)
        self.q = nn.Linear(w, w, bias=False)
        self.kv = nn.Linear(w, 2 * w, bias=False)
        self.cap = SoftCap(cfg.cap)
        self.before, self.after = Switchboard(cfg.heads), Switchboard(cfg.heads)
        self.proj = nn.Linear(w, w)

    def heads_first(self, t):
        return t.unflatten(-1, (self.cfg.heads, -1)).transpose(-3, -2)

    def forward(self, quotes, live):
        q = self.heads_first(self.q(self.latents)).unsqueeze(0)     # [1, H, M, d]
        k, v = map(self.heads_first, self.kv(quotes).chunk(2, -1))  # [B, H, N, d]
        z = self.before(self.cap((q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5))
        closed = ~live[:, None, None, :]
        z = z.masked_fill(closed, torch.finfo(z.dtype).min)
        w = z.softmax(-1).masked_fill(closed, 0.0)
        out = self.after(w) @ v
        return self.proj(out.transpose(1, 2).flatten(2))


class SurfaceModel(nn.Module):
    def __init__(self, cfg=DEFAULTS):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(cfg.quote_dim, cfg.width), nn.SiLU())
        self.reader = SmileReader(cfg)
        self.asker = nn.Linear(2, cfg.width)
        self.vol = nn.Sequential(nn.Linear(cfg.width, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, quotes, live, where):
        """where [B, P, 2] -> fitted vol [B, P]"""
        lat = self.reader(self.lift(quotes), live).mean(1, keepdim=True)
        return self.vol(lat + self.asker(where)).squeeze(-1).exp() * 0.2


def calendar_penalty(vol, t):
    """Total variance must not fall with maturity (t sorted)."""
    tv = vol ** 2 * t
    return torch.relu(tv[:, :-1] - tv[:, 1:]).mean()


if __name__ == "__main__":
    net = SurfaceModel()
    live = torch.rand(2, 12) > 0.5
    fit = net(torch.randn(2, 12, 4), live, torch.rand(2, 6, 2))
    print(fit, calendar_penalty(fit, torch.linspace(0.1, 2, 6)))
