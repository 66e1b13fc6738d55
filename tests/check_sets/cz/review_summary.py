import torch
from torch import nn


class ReviewSummary(nn.Module):
    """Self-attention over the sentences of a product's reviews, then a mean over real sentences.

    sent (B, L, D); real (B, L) bool, True = sentence, False = padding, which no sentence may read.
    """

    def __init__(self, D=24, H=3):
        super().__init__()
        self.H, self.hd = H, D // H
        self.to_q, self.to_k, self.to_v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.join = nn.Linear(D, D)

    def rows(self, t):
        return t.unflatten(-1, (self.H, self.hd)).movedim(2, 1)

    def forward(self, sent, real):
        q, k, v = self.rows(self.to_q(sent)), self.rows(self.to_k(sent)), self.rows(self.to_v(sent))
        sim = torch.einsum("bhid,bhjd->bhij", q, k)
        hide = ~real[:, None, :, None]
        sim = sim.masked_fill(hide, torch.finfo(sim.dtype).min)
        out = self.join((sim.softmax(-1) @ v).movedim(1, 2).flatten(2))
        w = real.to(out.dtype).unsqueeze(-1)
        return (out * w).sum(1) / w.sum(1).clamp_min(1.0)
