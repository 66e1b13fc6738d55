import torch
from torch import nn


class SessionAttention(nn.Module):
    """Attention of candidates (B, C, dim) over the clicks of a session (B, L, dim).

    clicked (B, L) bool: True for a click, False for padding; recent (B, L) bool: True for clicks of the last hour.
    Only recent clicks count; a session without any gives a finite answer.
    """

    def __init__(self, dim):
        super().__init__()
        self.q, self.k = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, candidates, clicks, clicked, recent):
        s = self.q(candidates) @ self.k(clicks).transpose(1, 2) / clicks.shape[-1] ** 0.5
        low = torch.finfo(s.dtype).min
        bias = (~clicked).to(s.dtype) * low + (~recent).to(s.dtype) * low
        s = s + bias[:, None, :]
        return torch.softmax(s, dim=-1) @ clicks
