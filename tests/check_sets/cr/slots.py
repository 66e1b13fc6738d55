import torch
from torch import nn


class SlotAttention(nn.Module):
    """Locatello et al. 2020, algorithm 1.

    Slots compete for inputs: the softmax runs over the slots, and the weights of each
    slot are then normalised over the inputs to take a weighted mean.
    """

    def __init__(self, dim, n_slots=4, iters=3, hidden=32, eps=1e-8):
        super().__init__()
        self.n_slots, self.iters, self.eps, self.scale = n_slots, iters, eps, dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, n_slots, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)

    def forward(self, inputs):
        """inputs (B, N, dim) -> slots (B, S, dim), learned initial slots (BO-QSA style, no noise)."""
        B, N, D = inputs.shape
        x = self.norm_in(inputs)
        k, v = self.to_k(x), self.to_v(x)
        slots = self.mu.expand(B, -1, -1)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            logits = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
            attn = logits.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = attn @ v
            slots = self.gru(updates.reshape(-1, D), prev.reshape(-1, D)).view(B, self.n_slots, D)
            slots = slots + self.mlp(slots)
        return slots
