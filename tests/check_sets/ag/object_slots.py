import numpy as np
import torch
from torch import nn


def build_grid(h, w):
    ys, xs = np.meshgrid(np.linspace(0, 1, h), np.linspace(0, 1, w), indexing="ij")
    g = np.stack([ys, xs, 1 - ys, 1 - xs], -1).astype(np.float32)
    return torch.from_numpy(g)[None]


class SoftPositionEmbed(nn.Module):
    def __init__(self, hidden, resolution):
        super().__init__()
        self.dense = nn.Linear(4, hidden)
        self.register_buffer("grid", build_grid(*resolution))

    def forward(self, x):
        return x + self.dense(self.grid)


class SlotAttention(nn.Module):
    """Slots compete for the inputs: Locatello et al., "Object-Centric Learning with
    Slot Attention", Algorithm 1.

    inputs (B, N, C) -> slots (B, K, D), and the last attention (B, N, K), where every
    pixel's row is a distribution over the slots.
    """

    def __init__(self, num_slots, in_dim, slot_dim, iters=3, mlp_dim=128, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = slot_dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, slot_dim) * slot_dim ** -0.5)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, slot_dim))
        self.to_q = nn.Linear(slot_dim, slot_dim, bias=False)
        self.to_k = nn.Linear(in_dim, slot_dim, bias=False)
        self.to_v = nn.Linear(in_dim, slot_dim, bias=False)
        self.gru = nn.GRUCell(slot_dim, slot_dim)
        self.mlp = nn.Sequential(nn.LayerNorm(slot_dim), nn.Linear(slot_dim, mlp_dim),
                                 nn.ReLU(), nn.Linear(mlp_dim, slot_dim))
        self.norm_in = nn.LayerNorm(in_dim)
        self.norm_slots = nn.LayerNorm(slot_dim)

    def init_slots(self, batch):
        noise = torch.randn(batch, self.num_slots, self.mu.shape[-1], device=self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def forward(self, inputs, slots=None):
        b = inputs.shape[0]
        if slots is None:
            slots = self.init_slots(b)
        d = slots.shape[-1]
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            logits = torch.einsum("bnd,bkd->bnk", k, q) * self.scale
            attn = logits.softmax(dim=-1)
            w = attn + self.eps
            w = w / w.sum(dim=1, keepdim=True)
            updates = torch.einsum("bnk,bnd->bkd", w, v)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(slots)
        return slots, attn


class SlotEncoder(nn.Module):
    def __init__(self, resolution=(32, 32), hidden=32, num_slots=5, iters=3):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(3, hidden, 5, padding=2), nn.ReLU(),
            nn.Conv2d(hidden, hidden, 5, padding=2), nn.ReLU(),
        )
        self.pos = SoftPositionEmbed(hidden, resolution)
        self.mlp = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden),
                                 nn.ReLU(), nn.Linear(hidden, hidden))
        self.slots = SlotAttention(num_slots, hidden, hidden, iters)

    def forward(self, img):
        f = self.cnn(img).permute(0, 2, 3, 1)
        f = self.pos(f).flatten(1, 2)
        return self.slots(self.mlp(f))
