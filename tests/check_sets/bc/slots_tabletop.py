"""Slot attention for the table-top manipulation benchmark (Locatello et al., 2020).

Slots are queries and compete for pixels: the softmax runs over the SLOTS, after that the
weights of each slot are normalised over the pixels (weighted mean).
"""
import torch
import torch.nn as nn


class SlotBinder(nn.Module):
    def __init__(self, n_slots: int, dim: int, iters: int = 3, eps: float = 1e-8, hidden: int = 64):
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.scale = dim**-0.5
        self.slots_mu = nn.Parameter(torch.randn(1, n_slots, dim))  # learned, not sampled
        self.project_q = nn.Linear(dim, dim, bias=False)
        self.project_k = nn.Linear(dim, dim, bias=False)
        self.project_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def step(self, slots, k, v):
        b, n, d = slots.shape
        q = self.project_q(self.norm_slots(slots)) * self.scale
        attn = torch.einsum("bnd,bpd->bnp", q, k).softmax(dim=1) + self.eps
        attn = attn / attn.sum(dim=-1, keepdim=True)
        updates = torch.einsum("bnp,bpd->bnd", attn, v)
        slots = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).view(b, n, d)
        return slots + self.mlp(self.norm_mlp(slots)), attn

    def forward(self, pixels: torch.Tensor):
        """pixels (B, P, dim) -> slots (B, n_slots, dim), last weights (B, n_slots, P)."""
        x = self.norm_in(pixels)
        k, v = self.project_k(x), self.project_v(x)
        slots = self.slots_mu.expand(x.shape[0], -1, -1)
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn


class GraspHead(nn.Module):
    """xyz + yaw + score for each slot"""

    def __init__(self, dim):
        super().__init__()
        self.out = nn.Linear(dim, 5)

    def forward(self, slots):
        o = self.out(slots)
        return {"xyz": o[..., :3].tanh(), "yaw": o[..., 3], "score": o[..., 4].sigmoid()}
