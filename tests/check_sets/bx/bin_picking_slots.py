"""Objects in a picking bin as slots (robot cell 4).

Slot attention (Locatello et al. 2020): in each round the slots compete for the
pixels, so the softmax runs over the SLOTS for every pixel; the weights are then
divided by their sum over the pixels, and a slot takes the weighted mean of the
pixel values.  A GRU cell and a small residual MLP update the slot.

Slots start from learned vectors (no sampling), so that runs are repeatable.
"""
import torch
from torch import nn


class BinSlots(nn.Module):
    def __init__(self, feat: int = 10, dim: int = 16, n_slots: int = 4, rounds: int = 3, eps: float = 1e-8):
        super().__init__()
        self.rounds, self.eps, self.dim = rounds, eps, dim
        self.start = nn.Parameter(torch.randn(n_slots, dim))
        self.norm_in = nn.LayerNorm(feat)
        self.norm_slot = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(feat, dim, bias=False)
        self.v = nn.Linear(feat, dim, bias=False)
        self.cell = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """pixels [B, N, feat] -> slots [B, K, dim], ownership of pixels [B, N, K]"""
        b = pixels.shape[0]
        x = self.norm_in(pixels)
        k, v = self.k(x), self.v(x)
        slots = self.start.expand(b, -1, -1)
        for _ in range(self.rounds):
            q = self.q(self.norm_slot(slots))
            logits = torch.einsum("bnd,bkd->bnk", k, q) * self.dim ** -0.5
            own = logits.softmax(dim=-1)
            share = own + self.eps
            share = share / share.sum(dim=1, keepdim=True)
            update = torch.einsum("bnk,bnd->bkd", share, v)
            slots = self.cell(update.flatten(0, 1), slots.reshape(-1, self.dim)).view(b, -1, self.dim)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, own


class GraspHead(nn.Module):
    def __init__(self, **kw):
        super().__init__()
        self.slots = BinSlots(**kw)
        self.pose = nn.Linear(self.slots.dim, 7)

    def forward(self, pixels):
        return self.pose(self.slots(pixels)[0])
