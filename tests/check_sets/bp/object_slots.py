"""Slot attention (Locatello et al. 2020) used as perception module of a tabletop robot.

The slots COMPETE for the pixels: the softmax runs over the slots, afterwards each
slot takes the weighted mean of the pixels it has won.
"""
import torch
from torch import nn

EPS = 1e-8


class SlotAttention(nn.Module):
    def __init__(self, n_slots: int, dim: int, iters: int = 3, hidden: int = 64):
        super().__init__()
        self.n_slots, self.iters = n_slots, iters
        self.scale = dim ** -0.5
        # learned queries (no sampling), so that the robot behaves reproducibly
        self.slots_init = nn.Parameter(torch.randn(1, n_slots, dim) * 0.5)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, dim))
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def step(self, slots, k, v):
        b, n, d = slots.shape
        q = self.to_q(self.norm_slots(slots))
        logits = torch.einsum('bid,bjd->bij', q, k) * self.scale     # slots x pixels
        attn = logits.softmax(dim=1) + EPS
        updates = torch.einsum('bij,bjd->bid', attn / attn.sum(dim=-1, keepdim=True), v)
        new = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).view(b, n, d)
        return new + self.mlp(self.norm_mlp(new)), attn

    def forward(self, pixels):
        """pixels [B, N, D] -> slots [B, n_slots, D], masks [B, n_slots, N] (sum 1 over the slots)."""
        x = self.norm_input(pixels)
        k, v = self.to_k(x), self.to_v(x)
        slots = self.slots_init.expand(pixels.size(0), -1, -1)
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn


class TabletopEncoder(nn.Module):
    def __init__(self, n_slots=5, dim=32):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(3, dim, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(dim, dim, 5, stride=2, padding=2), nn.ReLU(),
        )
        self.pos = nn.Linear(4, dim)
        self.slots = SlotAttention(n_slots, dim)

    def forward(self, img):
        f = self.cnn(img)
        h, w = f.shape[-2:]
        ys = torch.linspace(0, 1, h).view(h, 1).expand(h, w)
        xs = torch.linspace(0, 1, w).view(1, w).expand(h, w)
        grid = torch.stack([ys, xs, 1 - ys, 1 - xs], dim=-1).to(f)
        f = f.permute(0, 2, 3, 1) + self.pos(grid)
        return self.slots(f.flatten(1, 2))
