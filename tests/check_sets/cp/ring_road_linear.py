"""Causal linear attention (Katharopoulos et al. 2020) for ring-road detector streams.

out_t = phi(q_t) S_t / (phi(q_t) . z_t),   S_t = sum_{s<=t} phi(k_s) v_s^T,   z_t = sum_{s<=t} phi(k_s)
with phi(x) = elu(x) + 1.  There is no softmax and no scaling; the state (S, z)
can be carried over from one call to the next, so streaming minute by minute
gives the same numbers as processing the whole day.
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class StreamState(NamedTuple):
    S: torch.Tensor   # B, H, D, D
    z: torch.Tensor   # B, H, D


def phi(x):
    return F.elu(x) + 1.0


class RingRoadAttention(nn.Module):
    def __init__(self, channels: int = 32, heads: int = 4, eps: float = 1e-6):
        super().__init__()
        assert channels % heads == 0
        self.heads, self.eps = heads, eps
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, flow: torch.Tensor, state: Optional[StreamState] = None):
        """flow: (B, T, channels). Returns (B, T, channels) and the new state."""
        B, T, C = flow.shape
        D = C // self.heads
        heads = lambda t: t.view(B, T, self.heads, D).transpose(1, 2)
        q, k, v = phi(heads(self.q(flow))), phi(heads(self.k(flow))), heads(self.v(flow))

        S = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(dim=2)
        z = k.cumsum(dim=2)
        if state is not None:
            S = S + state.S.unsqueeze(2)
            z = z + state.z.unsqueeze(2)

        num = torch.einsum("bhtd,bhtde->bhte", q, S)
        den = torch.einsum("bhtd,bhtd->bht", q, z).clamp(min=self.eps)
        y = num / den.unsqueeze(-1)
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.out(y), StreamState(S[:, :, -1], z[:, :, -1])
