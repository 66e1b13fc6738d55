"""Object-centric slots (Locatello et al., "Object-Centric Learning with Slot Attention", 2020)."""
import torch
from torch import nn


class SlotBinder(nn.Module):
    """Iteratively binds `num_slots` vectors to a set of input features.

    The slots compete for every input: the coefficients of one input sum to one over the slots.
    They are then renormalised so that a slot is updated with a weighted *mean* of its inputs.
    Slots start from a learned initialisation (as in the video follow-ups), not from noise.

    forward(inputs): (B, N, in_dim) -> slots (B, S, slot_dim), masks (B, S, N)
    where masks are the competition coefficients of the last iteration.
    """

    def __init__(self, in_dim=16, slot_dim=24, num_slots=4, iters=3, eps=1e-8):
        super().__init__()
        self.iters, self.eps = iters, eps
        self.scale = slot_dim ** -0.5
        self.slots_init = nn.Parameter(torch.randn(1, num_slots, slot_dim))
        self.norm_in = nn.LayerNorm(in_dim)
        self.norm_slots = nn.LayerNorm(slot_dim)
        self.norm_mlp = nn.LayerNorm(slot_dim)
        self.to_q = nn.Linear(slot_dim, slot_dim, bias=False)
        self.to_k = nn.Linear(in_dim, slot_dim, bias=False)
        self.to_v = nn.Linear(in_dim, slot_dim, bias=False)
        self.gru = nn.GRUCell(slot_dim, slot_dim)
        self.mlp = nn.Sequential(
            nn.Linear(slot_dim, 2 * slot_dim), nn.ReLU(), nn.Linear(2 * slot_dim, slot_dim)
        )

    def forward(self, inputs):
        B = inputs.size(0)
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        slots = self.slots_init.expand(B, -1, -1)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            logits = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
            masks = logits.softmax(dim=1)
            coef = masks + self.eps
            coef = coef / coef.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bsn,bnd->bsd", coef, v)
            slots = self.gru(updates.flatten(0, 1), prev.flatten(0, 1)).view_as(prev)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, masks
