"""Slot attention (Locatello et al. 2020) for counting products on shelf photos.

Slots compete for image cells: the softmax runs over the *slots*, then each slot takes
the weighted mean of the cells it won (weights renormalised over cells).  Initial slots
are learned instead of sampled, so that the count is reproducible.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots: int = 5, dim: int = 24, in_dim: int = 16, iters: int = 3,
                 eps: float = 1e-8, hidden: int = 48):
        super().__init__()
        self.iters, self.eps = iters, eps
        self.scale = dim ** -0.5
        self.slots_init = nn.Parameter(torch.randn(1, num_slots, dim))

        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(in_dim, dim, bias=False)
        self.to_v = nn.Linear(in_dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

        self.norm_input = nn.LayerNorm(in_dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_pre_ff = nn.LayerNorm(dim)

    def forward(self, cells: torch.Tensor):
        b, n, _ = cells.shape
        cells = self.norm_input(cells)
        k, v = self.to_k(cells), self.to_v(cells)
        slots = self.slots_init.expand(b, -1, -1)

        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale    # slots x cells
            attn = dots.softmax(dim=1) + self.eps
            mean_w = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, mean_w)
            slots = self.gru(updates.flatten(0, 1), prev.flatten(0, 1)).view_as(prev)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots, attn


class ShelfCounter(nn.Module):
    def __init__(self, num_slots: int = 5):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.slots = SlotAttention(num_slots)
        self.is_product = nn.Linear(24, 1)

    def forward(self, img: torch.Tensor) -> torch.Tensor:
        cells = self.backbone(img).flatten(2).transpose(1, 2)
        slots, _ = self.slots(cells)
        return torch.sigmoid(self.is_product(slots)).sum(dim=(1, 2))
