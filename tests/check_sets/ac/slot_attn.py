"""Slot Attention (Locatello et al., NeurIPS 2020), PyTorch port of the official TF code."""
import torch
from torch import nn


class SlotAttention(nn.Module):
    """Slots compete for the inputs: the softmax runs over the slots, after that the weights of
    each slot are normalised over the inputs, so the update is a weighted mean."""

    def __init__(self, num_slots, dim, iters=3, hidden=64, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.norm_in, self.norm_slots, self.norm_mlp = (nn.LayerNorm(dim) for _ in range(3))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def init_slots(self, b, like):
        noise = torch.randn(b, self.num_slots, self.mu.size(-1), device=like.device, dtype=like.dtype)
        return self.mu + self.log_sigma.exp() * noise

    def forward(self, inputs, slots=None):
        b, n, d = inputs.shape
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        if slots is None:
            slots = self.init_slots(b, inputs)

        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bsn,bnd->bsd", attn, v)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, attn


class SoftPositionEmbed(nn.Module):
    def __init__(self, dim, res):
        super().__init__()
        ys, xs = torch.meshgrid(torch.linspace(0, 1, res[0]), torch.linspace(0, 1, res[1]), indexing="ij")
        self.register_buffer("grid", torch.stack([ys, xs, 1 - ys, 1 - xs], -1).unsqueeze(0))
        self.dense = nn.Linear(4, dim)

    def forward(self, x):
        return x + self.dense(self.grid)


class SlotEncoder(nn.Module):
    def __init__(self, res=(16, 16), dim=32, num_slots=5):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, dim, 5, padding=2), nn.ReLU(),
                                 nn.Conv2d(dim, dim, 5, padding=2), nn.ReLU())
        self.pos = SoftPositionEmbed(dim, res)
        self.pre = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.slots = SlotAttention(num_slots, dim)

    def forward(self, img):
        f = self.pos(self.cnn(img).permute(0, 2, 3, 1)).flatten(1, 2)
        return self.slots(self.pre(f))
