"""Slot Attention (Locatello et al., 2020) for unsupervised object discovery.

The slots *compete* for the input features: the softmax runs over the slots, so
each feature is shared out among the slots; afterwards each slot takes the
weighted mean of what it won (weights + eps, normalised over the inputs). A GRU
and a residual MLP update the slots; this is repeated `iters` times with the
same parameters.

    feats  (batch, n_inputs, d_in)
    slots  (batch, n_slots, d_slot)
"""
from typing import Optional, Tuple

import torch
from torch import Tensor, nn


class SlotAttention(nn.Module):
    def __init__(self, n_slots: int, d_in: int, d_slot: int, iters: int = 3,
                 d_hidden: int = 64, eps: float = 1e-8) -> None:
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.scale = d_slot ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, d_slot))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, d_slot))
        self.to_q = nn.Linear(d_slot, d_slot, bias=False)
        self.to_k = nn.Linear(d_in, d_slot, bias=False)
        self.to_v = nn.Linear(d_in, d_slot, bias=False)
        self.gru = nn.GRUCell(d_slot, d_slot)
        self.mlp = nn.Sequential(nn.LayerNorm(d_slot), nn.Linear(d_slot, d_hidden),
                                 nn.ReLU(), nn.Linear(d_hidden, d_slot))
        self.norm_in = nn.LayerNorm(d_in)
        self.norm_slot = nn.LayerNorm(d_slot)

    def sample(self, batch: int) -> Tensor:
        noise = torch.randn(batch, self.n_slots, self.mu.size(-1), device=self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def forward(self, feats: Tensor, slots: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """Returns the slots and the last assignment (batch, n_slots, n_inputs).

        The assignment sums to one over the slots. Pass `slots` to start from
        given ones (video: the slots of the last frame).
        """
        b = feats.size(0)
        feats = self.norm_in(feats)
        k, v = self.to_k(feats), self.to_v(feats)
        if slots is None:
            slots = self.sample(b)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slot(slots)) * self.scale
            logits = torch.einsum("bsd,bnd->bsn", q, k)
            assign = logits.softmax(dim=1)          # competition between slots
            w = assign + self.eps
            w = w / w.sum(dim=-1, keepdim=True)     # weighted mean over inputs
            update = torch.einsum("bsn,bnd->bsd", w, v)
            slots = self.gru(update.flatten(0, 1), prev.flatten(0, 1)).view_as(prev)
            slots = slots + self.mlp(slots)
        return slots, assign


if __name__ == "__main__":
    torch.manual_seed(1)
    module = SlotAttention(n_slots=5, d_in=16, d_slot=24)
    slots, assign = module(torch.randn(2, 49, 16))
    print(slots.shape, assign.sum(1)[0, :4])
