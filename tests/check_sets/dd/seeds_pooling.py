from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class PoolSpec:
    dim: int = 24
    seeds: int = 3
    heads: int = 2
    init_temperature: float = 0.1


class SeedPooling(nn.Module):
    """Pools a set (point cloud, basket, conformers) into a few vectors with learned seeds.

    Similarity is the cosine divided by a learned temperature, one per head.
    items: (B, N, dim); present: (B, N) bool.  Returns (B, seeds, dim); an empty set gives zeros.
    """

    def __init__(self, spec: PoolSpec = PoolSpec()):
        super().__init__()
        self.spec = spec
        self.seed = nn.Parameter(torch.randn(spec.heads, spec.seeds, spec.dim // spec.heads))
        self.key = nn.Linear(spec.dim, spec.dim)
        self.val = nn.Linear(spec.dim, spec.dim)
        self.log_t = nn.Parameter(torch.full((spec.heads, 1, 1), spec.init_temperature).log())

    def forward(self, items, present):
        B, N, D = items.shape
        k = self.key(items).view(B, N, self.spec.heads, -1).transpose(1, 2)
        v = self.val(items).view(B, N, self.spec.heads, -1).transpose(1, 2)
        sim = F.normalize(self.seed, dim=-1) @ F.normalize(k, dim=-1).mT / self.log_t.exp()
        ok = present[:, None, None, :]
        sim = sim.masked_fill(~ok, torch.finfo(sim.dtype).min)
        w = sim.softmax(dim=-1) * ok
        return (w @ v).transpose(1, 2).reshape(B, self.spec.seeds, D)
