"""Latent key/value compression for on-device decoding (no rotary part)."""
import torch
from torch import nn


class LatentDecoder(nn.Module):
    """Only the latent [B, S, r] is stored between calls.

    naive(x, store)  : expands keys and values from the latent
    lean(x, store)   : the same result, with the up-projections absorbed into query and output
    x [B, T, D] are the T positions after the S stored ones; causal within x.
    Both return (y [B, T, D], new store [B, S + T, r]).
    """

    def __init__(self, D, heads, d, r):
        super().__init__()
        self.h, self.d = heads, d
        self.wq = nn.Linear(D, heads * d, bias=False)
        self.down = nn.Linear(D, r, bias=False)
        self.up_k = nn.Parameter(torch.randn(heads, r, d) * r ** -0.5)
        self.up_v = nn.Parameter(torch.randn(heads, r, d) * r ** -0.5)
        self.wo = nn.Parameter(torch.randn(heads, d, D) * (heads * d) ** -0.5)

    def _append(self, x, store):
        fresh = self.down(x)
        return fresh if store is None else torch.cat([store, fresh], dim=1)

    def _weights(self, s):
        T, S = s.shape[-2:]
        future = torch.ones(T, S, dtype=torch.bool, device=s.device).triu(S - T + 1)
        return (s * self.d ** -0.5).masked_fill(future, float("-inf")).softmax(-1)

    def naive(self, x, store=None):
        z = self._append(x, store)
        q = self.wq(x).unflatten(-1, (self.h, self.d))
        k = torch.einsum("bsr,hrd->bshd", z, self.up_k)
        v = torch.einsum("bsr,hrd->bshd", z, self.up_v)
        p = self._weights(torch.einsum("bthd,bshd->bhts", q, k))
        y = torch.einsum("bhts,bshd->bthd", p, v)
        return torch.einsum("bthd,hdm->btm", y, self.wo), z

    def lean(self, x, store=None):
        z = self._append(x, store)
        q = self.wq(x).unflatten(-1, (self.h, self.d))
        q = torch.einsum("bthd,hrd->bhtr", q, self.up_k)
        p = self._weights(torch.einsum("bhtr,bsr->bhts", q, z))
        y = torch.einsum("bhts,bsr->bhtr", p, z)
        return torch.einsum("bhtr,hrm->btm", y, self.up_v @ self.wo), z

    forward = lean
