# Object discovery on CLEVR-like renders. After Locatello et al., "Object-Centric
# Learning with Slot Attention".
import torch
import torch.nn as nn


class SlotAttention(nn.Module):
    """Slots compete for the pixels: the softmax runs over the slots; afterwards the
    weights of each slot are renormalised over the inputs (weighted mean)."""

    def __init__(self, num_slots=5, dim=16, iters=3, eps=1e-8, hidden=32):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def init_slots(self, b):
        noise = torch.randn(b, self.num_slots, self.mu.shape[-1], device=self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def forward(self, inputs, slots=None):
        """inputs (b, n, d) -> slots (b, s, d), masks (b, s, n) that sum to one over s."""
        b, n, d = inputs.shape
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        if slots is None:
            slots = self.init_slots(b)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            logits = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
            attn = logits.softmax(dim=1)
            w = attn + self.eps
            w = w / w.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bsn,bnd->bsd", w, v)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, attn


class Encoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, dim, 5, padding=2), nn.ReLU(),
                                  nn.Conv2d(dim, dim, 5, padding=2), nn.ReLU())
        self.slots = SlotAttention(dim=dim)

    def forward(self, img):
        f = self.conv(img).flatten(2).transpose(1, 2)
        return self.slots(f)
