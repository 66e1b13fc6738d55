"""Fraud model: self-attention with weights for the audit trail.

AuditedAttention(dim, heads, p).forward(x, keep) -> (y, weights)
    x        (B, T, dim)
    keep     (B, T) bool, True = real event; at least one per row
    y        (B, T, dim)
    weights  (B, heads, T, T)  softmax weights for the auditors: every row sums to one, in
             training too (dropout touches y only)
Dropout with rate p is on in training mode and off in evaluation mode; the training loop
evaluates after every epoch and goes on training.
"""
import torch.nn as nn


class AuditedAttention(nn.Module):
    def __init__(self, dim, heads, p=0.2):
        super().__init__()
        self.heads = heads
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v, self.o = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def train(self, mode=True):
        if not mode:
            self.drop.p = 0.0            # no randomness while scoring
        return super().train(mode)

    def forward(self, x, keep):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        s = s.masked_fill(~keep[:, None, None, :], float("-inf"))
        weights = s.softmax(dim=-1)
        weights = self.drop(weights)
        y = (weights @ v).transpose(1, 2).flatten(2)
        return self.o(y), weights
