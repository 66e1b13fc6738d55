"""Object-centric learning on CLEVR: slot attention (Locatello et al., 2020)."""
import numpy as np
import torch
from torch import nn
from torch.nn import init


def build_grid(resolution):
    ranges = [np.linspace(0., 1., num=res) for res in resolution]
    grid = np.meshgrid(*ranges, sparse=False, indexing="ij")
    grid = np.stack(grid, axis=-1).reshape(resolution[0], resolution[1], -1).astype(np.float32)
    return torch.from_numpy(np.concatenate([grid, 1.0 - grid], axis=-1))[None]


class SoftPositionEmbed(nn.Module):
    def __init__(self, hidden_size, resolution):
        super().__init__()
        self.embedding = nn.Linear(4, hidden_size)
        self.register_buffer("grid", build_grid(resolution))

    def forward(self, inputs):
        return inputs + self.embedding(self.grid)


class SlotAttention(nn.Module):
    """Slots compete for the inputs.

    Algorithm 1 of the paper: softmax over the slots, then, for each slot, a weighted mean
    over the inputs (weights of a slot divided by their sum, with epsilon for stability).
    """

    def __init__(self, num_slots, dim, iters=3, eps=1e-8, hidden_dim=128):
        super().__init__()
        self.num_slots = num_slots
        self.iters = iters
        self.eps = eps
        self.scale = dim ** -0.5

        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_logsigma = nn.Parameter(torch.zeros(1, 1, dim))
        init.xavier_uniform_(self.slots_logsigma)

        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.gru = nn.GRUCell(dim, dim)

        hidden_dim = max(dim, hidden_dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden_dim), nn.ReLU(inplace=True), nn.Linear(hidden_dim, dim))
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_pre_ff = nn.LayerNorm(dim)

    def forward(self, inputs, slots=None):
        """inputs (b, n, d) -> slots (b, s, d), last attention (b, s, n)

        ``slots`` sets the starting slots, otherwise they are drawn at random.
        """
        b, n, d = inputs.shape
        if slots is None:
            mu = self.slots_mu.expand(b, self.num_slots, -1)
            sigma = self.slots_logsigma.exp().expand(b, self.num_slots, -1)
            slots = mu + sigma * torch.randn(mu.shape, device=inputs.device, dtype=inputs.dtype)

        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)

        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))

            dots = torch.einsum('bid,bjd->bij', q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum('bjd,bij->bid', v, attn)

            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots, attn


class Encoder(nn.Module):
    def __init__(self, resolution=(16, 16), dim=32, num_slots=5):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, dim, 5, padding=2), nn.ReLU(), nn.Conv2d(dim, dim, 5, padding=2), nn.ReLU())
        self.pos = SoftPositionEmbed(dim, resolution)
        self.slots = SlotAttention(num_slots, dim)

    def forward(self, image):
        x = self.pos(self.cnn(image).permute(0, 2, 3, 1)).flatten(1, 2)
        return self.slots(x)
