import torch
import torch.nn as nn
import torch.nn.functional as F


class MemoryReader(nn.Module):
    """Memorizing-Transformer layer: local causal attention plus retrieved key/value pairs, mixed by a gate per head.

    x        (B, T, D)
    mem_k/v  (B, H, T, R, d)  R neighbours found for every query
    mem_ok   (B, H, T, R) bool, False where the store held fewer than R entries (at least one is True)
    """

    def __init__(self, D, H):
        super().__init__()
        self.H, self.d = H, D // H
        self.q, self.kv = nn.Linear(D, D), nn.Linear(D, 2 * D)
        self.o = nn.Linear(D, D)
        self.gate = nn.Parameter(torch.zeros(H, 1, 1))

    def forward(self, x, mem_k, mem_v, mem_ok):
        B, T, D = x.shape
        split = lambda t: t.view(B, T, self.H, self.d).transpose(1, 2)
        q = split(self.q(x)) * self.d ** -0.5
        k, v = map(split, self.kv(x).chunk(2, -1))

        local = q @ k.transpose(-1, -2)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        local = local.masked_fill(future, float("-inf")).softmax(-1) @ v

        sim = torch.einsum("bhtd,bhtrd->bhtr", q, mem_k)
        sim.masked_fill(~mem_ok, torch.finfo(sim.dtype).min)
        far = torch.einsum("bhtr,bhtrd->bhtd", F.softmax(sim, dim=-1), mem_v)

        g = torch.sigmoid(self.gate)
        y = g * far + (1 - g) * local
        return self.o(y.transpose(1, 2).reshape(B, T, D))
