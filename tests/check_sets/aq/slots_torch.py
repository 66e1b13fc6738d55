"""Object-centric encoder.  Slots compete for the input features."""
import torch
from torch import nn


class SlotBinder(nn.Module):
    """Iterative binding of K slots to N features.

    Softmax goes over the *slots* (competition); afterwards each slot takes the
    weighted mean over the inputs, for which the weights of one slot are brought
    to sum one over the inputs.  valid: [B, N] bool, True for real features.
    """

    def __init__(self, k_slots, dim, rounds=3, eps=1e-8, hidden=64):
        super().__init__()
        self.k_slots, self.rounds, self.eps = k_slots, rounds, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.logsig = nn.Parameter(torch.zeros(1, 1, dim))
        self.norm_in, self.norm_s, self.norm_m = (nn.LayerNorm(dim) for _ in range(3))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def init_slots(self, b, generator=None):
        noise = torch.randn(b, self.k_slots, self.mu.shape[-1], generator=generator, dtype=self.mu.dtype)
        return self.mu + self.logsig.exp() * noise

    def bind(self, slots, k, v, valid=None):
        q = self.to_q(self.norm_s(slots))
        logits = torch.einsum("bid,bjd->bij", q, k) * self.scale
        share = logits.softmax(dim=1)
        if valid is not None:
            share = share * valid[:, None, :].to(share.dtype)
        w = share / share.sum(dim=-1, keepdim=True).clamp_min(self.eps)
        return torch.einsum("bjd,bij->bid", v, w), share

    def forward(self, feats, slots=None, valid=None):
        b, _, d = feats.shape
        feats = self.norm_in(feats)
        k, v = self.to_k(feats), self.to_v(feats)
        slots = self.init_slots(b) if slots is None else slots
        for _ in range(self.rounds):
            upd, share = self.bind(slots, k, v, valid)
            slots = self.gru(upd.reshape(-1, d), slots.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(self.norm_m(slots))
        return slots, share


def broadcast_grid(slots, h, w):
    """[B,K,D] -> [B*K, D+2, h, w] for the spatial broadcast decoder"""
    b, k, d = slots.shape
    g = slots.reshape(b * k, d, 1, 1).expand(-1, -1, h, w)
    ys = torch.linspace(-1, 1, h).view(1, 1, h, 1).expand(b * k, 1, h, w)
    xs = torch.linspace(-1, 1, w).view(1, 1, 1, w).expand(b * k, 1, h, w)
    return torch.cat([g, ys, xs], dim=1)
