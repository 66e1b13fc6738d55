"""Unsupervised counting of lichen thalli on rock photographs with Slot Attention.

The slots compete for pixels: the softmax runs over the *slots* (not over the pixels!),
afterwards each slot takes the weighted MEAN of the pixels it has won.  Reproduction of
Locatello et al. (2020), algorithm 1; the epsilon is the paper's.
"""
import argparse

import torch
from torch import nn

CFG = dict(slots=5, dim=24, hidden=48, iters=3, eps=1e-8)


class SlotAttention(nn.Module):
    def __init__(self, dim, slots=5, iters=3, hidden=48, eps=1e-8):
        super().__init__()
        self.n, self.iters, self.eps = slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * 0.2)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slot = nn.LayerNorm(dim)

    def step(self, slots, k, v, rock=None):
        q = self.to_q(self.norm_slot(slots))
        dots = torch.einsum("bid,bjd->bij", q, k) * self.scale       # [B, slots, pixels]
        attn = dots.softmax(dim=1)
        if rock is not None:
            attn = attn * (~rock)[:, None, :]
        share = attn + self.eps if rock is None else attn + self.eps * (~rock)[:, None, :]
        weights = share / share.sum(dim=-1, keepdim=True)
        return torch.einsum("bij,bjd->bid", weights, v), attn

    def forward(self, pixels, slots=None, rock=None):
        """pixels [B, P, dim]; slots [B, n, dim] start values (drawn when None);
        rock [B, P] True for bare rock, which no slot may collect."""
        B, _, D = pixels.shape
        if slots is None:
            noise = torch.randn(B, self.n, D, device=pixels.device, dtype=pixels.dtype)
            slots = self.mu + self.log_sigma.exp() * noise
        pixels = self.norm_in(pixels)
        k, v = self.to_k(pixels), self.to_v(pixels)
        for _ in range(self.iters):
            update, attn = self.step(slots, k, v, rock)
            slots = self.gru(update.reshape(-1, D), slots.reshape(-1, D)).reshape(B, -1, D)
            slots = slots + self.mlp(slots)
        return slots, attn


class Grid(nn.Module):
    """Adds a learned projection of the four soft coordinates."""

    def __init__(self, dim, side):
        super().__init__()
        r = torch.linspace(0, 1, side)
        y, x = torch.meshgrid(r, r, indexing="ij")
        self.register_buffer("grid", torch.stack([x, y, 1 - x, 1 - y], -1))
        self.proj = nn.Linear(4, dim)

    def forward(self, f):
        return f + self.proj(self.grid)


class LichenCounter(nn.Module):
    def __init__(self, side=12):
        super().__init__()
        d = CFG["dim"]
        self.cnn = nn.Sequential(nn.Conv2d(3, d, 5, padding=2), nn.ReLU(), nn.Conv2d(d, d, 5, padding=2), nn.ReLU())
        self.grid = Grid(d, side)
        self.slots = SlotAttention(d, CFG["slots"], CFG["iters"], CFG["hidden"], CFG["eps"])
        self.alive = nn.Linear(d, 1)

    def forward(self, img, rock=None):
        f = self.grid(self.cnn(img).permute(0, 2, 3, 1)).flatten(1, 2)
        s, attn = self.slots(f, rock=None if rock is None else rock.flatten(1))
        return torch.sigmoid(self.alive(s)).sum((1, 2)), attn


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--side", type=int, default=12)
    side = ap.parse_args().side
    n, a = LichenCounter(side)(torch.rand(2, 3, side, side))
    print(n, a.shape)
