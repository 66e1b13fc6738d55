"""Attention between road sensors; heads are folded into the batch axis to save memory copies."""
import torch
import torch.nn as nn


class SensorBlock(nn.Module):
    """x [B, N, C] readings of N sensors, alive [B, N] bool: sensors which reported in this sample.

    Each sensor attends to the living sensors of its own sample. If no sensor of the sample is
    alive, the attended part is zero.
    """

    def __init__(self, C, heads):
        super().__init__()
        assert C % heads == 0
        self.heads = heads
        self.q = nn.Linear(C, C)
        self.k = nn.Linear(C, C)
        self.v = nn.Linear(C, C)
        self.mix = nn.Linear(C, C, bias=False)
        self.norm = nn.LayerNorm(C)

    def fold(self, t):
        # [B, N, C] -> [heads * B, N, C / heads]
        return torch.cat(t.chunk(self.heads, dim=-1), dim=0)

    def unfold(self, t):
        return torch.cat(t.chunk(self.heads, dim=0), dim=-1)

    def forward(self, x, alive):
        q, k, v = self.fold(self.q(x)), self.fold(self.k(x)), self.fold(self.v(x))
        score = torch.bmm(q, k.transpose(1, 2)) / (q.shape[-1] ** 0.5)
        seen = alive.repeat_interleave(self.heads, dim=0).unsqueeze(1)
        score = score.masked_fill(~seen, torch.finfo(score.dtype).min)
        weight = torch.softmax(score, dim=-1) * seen
        return self.norm(x + self.mix(self.unfold(torch.bmm(weight, v))))
