"""Object discovery with slots (Locatello et al., 2020).

Note on the normalisation: slots COMPETE for pixels.  The softmax runs over the
slots for each pixel, and afterwards the weights of a slot are divided by their
sum, so that a slot is the weighted mean of the pixels it has won.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, iters=3, eps=1e-8, hidden=128):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        nn.init.xavier_uniform_(self.log_sigma)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, max(dim, hidden)), nn.ReLU(),
                                 nn.Linear(max(dim, hidden), dim))
        self.norm_in, self.norm_slots = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def step(self, slots, k, v, inside=None):
        """
        slots [B, S, D], k and v [B, N, D], inside [B, N] bool (True = pixel belongs to the picture)
        returns updates [B, S, D] and the maps [B, S, N] before the mean
        """
        q = self.to_q(self.norm_slots(slots))
        dots = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
        maps = dots.softmax(dim=1)
        share = maps + self.eps
        if inside is not None:
            share = share * inside[:, None, :].to(share.dtype)
        share = share / share.sum(dim=-1, keepdim=True).clamp(min=self.eps)
        return torch.einsum("bsn,bnd->bsd", share, v), maps

    def forward(self, pixels, inside=None, slots=None):
        B, N, D = pixels.shape
        if slots is None:
            noise = torch.randn(B, self.num_slots, D, device=pixels.device, dtype=pixels.dtype)
            slots = self.mu + self.log_sigma.exp() * noise
        pixels = self.norm_in(pixels)
        k, v = self.to_k(pixels), self.to_v(pixels)
        maps = None
        for _ in range(self.iters):
            updates, maps = self.step(slots, k, v, inside)
            slots = self.gru(updates.reshape(-1, D), slots.reshape(-1, D)).view(B, -1, D)
            slots = slots + self.mlp(slots)
        return slots, maps


class SoftPosition(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        h, w = size
        y, x = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
        self.register_buffer("grid", torch.stack([x, y, 1 - x, 1 - y], dim=-1))
        self.proj = nn.Linear(4, dim)

    def forward(self, x):
        return x + self.proj(self.grid)


class SlotAutoEncoder(nn.Module):
    def __init__(self, size=(32, 32), slots=5, dim=32):
        super().__init__()
        self.size = size
        self.conv = nn.Sequential(*[m for i in range(3) for m in (nn.Conv2d(3 if i == 0 else dim, dim, 5, padding=2), nn.ReLU())])
        self.pos_in, self.pos_out = SoftPosition(dim, size), SoftPosition(dim, size)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.slots = SlotAttention(slots, dim)
        self.dec = nn.Sequential(nn.Conv2d(dim, dim, 5, padding=2), nn.ReLU(), nn.Conv2d(dim, 4, 3, padding=1))

    def forward(self, img):
        x = self.pos_in(self.conv(img).permute(0, 2, 3, 1)).flatten(1, 2)
        slots, _ = self.slots(self.mlp(x))
        B, S, D = slots.shape
        grid = self.pos_out(slots.view(B * S, 1, 1, D).expand(-1, *self.size, -1))
        rgb, alpha = self.dec(grid.permute(0, 3, 1, 2)).view(B, S, 4, *self.size).split([3, 1], dim=2)
        return (rgb * alpha.softmax(dim=1)).sum(1), alpha.softmax(dim=1)
