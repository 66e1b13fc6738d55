import math
import torch
from torch import nn


class RoutePointer(nn.Module):
    """Decoder step of a routing policy (Kool et al., 2019).

    First a multi-head glimpse over the towns not yet visited, then a single-head
    pointer whose logits are clipped to [-clip, clip] by a tanh BEFORE visited towns
    are removed.  Visited towns get probability 0.
    """

    def __init__(self, dim, heads=4, clip=10.0):
        super().__init__()
        self.dim, self.heads, self.clip = dim, heads, clip
        self.ctx = nn.Linear(dim, dim, bias=False)
        self.node = nn.Linear(dim, 3 * dim, bias=False)   # glimpse key, glimpse value, pointer key
        self.mix = nn.Linear(dim, dim, bias=False)

    def forward(self, context, towns, visited):
        """context (B, dim); towns (B, N, dim); visited (B, N) bool, at least one False per row.

        Returns probabilities (B, N) of the next town.
        """
        B, N, _ = towns.shape
        d = self.dim // self.heads
        gk, gv, pk = self.node(towns).chunk(3, dim=-1)
        gk = gk.view(B, N, self.heads, d).permute(0, 2, 3, 1)
        gv = gv.view(B, N, self.heads, d).transpose(1, 2)
        q = self.ctx(context).view(B, self.heads, 1, d)
        a = q @ gk / math.sqrt(d)
        a = a.masked_fill(visited[:, None, None, :], -math.inf).softmax(-1)
        glimpse = self.mix((a @ gv).reshape(B, self.dim))
        u = (pk @ glimpse.unsqueeze(-1)).squeeze(-1) / math.sqrt(self.dim)
        u = self.clip * torch.tanh(u)
        return u.masked_fill(visited, -math.inf).softmax(-1)
