"""Nearest-neighbour memory read for a robot arm policy."""
import torch
import torch.nn.functional as F
from torch import nn


class RecallBank(nn.Module):
    """
    Fixed bank of `slots` (key, value) pairs, read by cosine similarity.

    query: (..., dim). The `top` most similar slots are fetched and averaged
    with softmax weights of cos / tau, tau learned (stored as a logarithm).
    The rest of the bank gets no weight. A scalar gate mixes the read with the
    query's own projection:
        out = g * read + (1 - g) * self_proj(query),  g = sigmoid(gate(query))
    Returns out (..., dim), slot numbers (..., top), weights (..., top).
    """

    def __init__(self, dim=16, slots=40, top=5, tau=0.1):
        super().__init__()
        self.top = top
        self.keys = nn.Parameter(torch.randn(slots, dim))
        self.values = nn.Parameter(torch.randn(slots, dim))
        self.log_tau = nn.Parameter(torch.tensor(float(tau)).log())
        self.self_proj = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, 1)

    def forward(self, query):
        shape = query.shape
        q = F.normalize(query.reshape(-1, shape[-1]), dim=-1)
        cos = q @ F.normalize(self.keys, dim=-1).t()
        # cosine is already bounded, so no sqrt(dim): tau is the temperature
        best, slot = cos.topk(self.top, dim=-1)
        w = torch.softmax(best / self.log_tau.exp(), dim=-1)
        read = (w.unsqueeze(1) @ self.values[slot]).squeeze(1)
        read = read.reshape(shape)
        g = torch.sigmoid(self.gate(query))
        out = g * read + (1 - g) * self.self_proj(query)
        lead = shape[:-1] + (self.top,)
        return out, slot.reshape(lead), w.reshape(lead)
