"""Object discovery on CLEVR-like scenes with Slot Attention (Locatello et al. 2020).

Slots compete for pixels: the normalisation runs over the slots, afterwards each
slot takes the weighted mean over the pixels it won.
"""
from __future__ import annotations

import torch
from torch import nn


class SoftPositionEmbed(nn.Module):
    def __init__(self, hidden: int, res: tuple[int, int]):
        super().__init__()
        self.dense = nn.Linear(4, hidden)
        ys = torch.linspace(0.0, 1.0, res[0])
        xs = torch.linspace(0.0, 1.0, res[1])
        g = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1)
        self.register_buffer("grid", torch.cat([g, 1.0 - g], -1)[None])

    def forward(self, x):
        return x + self.dense(self.grid)


class SlotAttention(nn.Module):
    """inputs [B, N, D_in], optional noise [B, K, D] -> slots [B, K, D], weights [B, K, N]"""

    def __init__(self, num_slots: int, d_in: int, dim: int, iters: int = 3, eps: float = 1e-8, hidden: int = 64):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.dim = dim
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.project_q = nn.Linear(dim, dim, bias=False)
        self.project_k = nn.Linear(d_in, dim, bias=False)
        self.project_v = nn.Linear(d_in, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in, self.norm_slots, self.norm_mlp = nn.LayerNorm(d_in), nn.LayerNorm(dim), nn.LayerNorm(dim)

    def step(self, slots, k, v):
        b, n_slots, d = slots.shape
        q = self.project_q(self.norm_slots(slots)) * d ** -0.5
        logits = torch.einsum("bnd,bkd->bnk", k, q)
        attn = logits.softmax(dim=-1)  # over the slots
        w = attn + self.eps
        w = w / w.sum(dim=1, keepdim=True)  # mean over the pixels
        updates = torch.einsum("bnk,bnd->bkd", w, v)
        slots = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).view(b, n_slots, d)
        return slots + self.mlp(self.norm_mlp(slots)), attn.transpose(1, 2)

    def forward(self, inputs, noise=None):
        b = inputs.shape[0]
        if noise is None:
            noise = torch.randn(b, self.num_slots, self.dim, device=inputs.device, dtype=inputs.dtype)
        slots = self.mu + self.log_sigma.exp() * noise
        x = self.norm_in(inputs)
        k, v = self.project_k(x), self.project_v(x)
        attn = None
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn


class SceneEncoder(nn.Module):
    def __init__(self, res=(16, 16), dim=32, slots=5):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, dim, 5, padding=2), nn.ReLU(), nn.Conv2d(dim, dim, 5, padding=2))
        self.pos = SoftPositionEmbed(dim, res)
        self.slots = SlotAttention(slots, dim, dim)

    def forward(self, img):
        x = self.pos(self.cnn(img).permute(0, 2, 3, 1))
        return self.slots(x.flatten(1, 2))
