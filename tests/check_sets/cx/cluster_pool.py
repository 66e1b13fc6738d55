"""Permutation invariant summary of galaxy clusters with a varying number of members."""
import math

import torch
import torch.nn as nn


class ClusterPool(nn.Module):
    """Pools a set of member galaxies into `seeds` summary vectors.

    members : [B, N, feat]
    count   : [B] integer, the first count[b] rows are real and the rest is filler.
              An empty cluster (count 0) is allowed: nothing is then added to the seeds.
    returns : [B, seeds, width]
    """

    def __init__(self, feat, width, heads, seeds=1):
        super().__init__()
        if width % heads:
            raise ValueError("width must be a multiple of heads")
        self.heads = heads
        self.seed = nn.Parameter(torch.randn(seeds, width) * 0.1)
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(feat, width)
        self.to_v = nn.Linear(feat, width)
        self.mix = nn.Linear(width, width)

    def forward(self, members, count):
        n = members.shape[1]
        real = torch.arange(n, device=members.device)[None, :] < count[:, None]  # [B, N]
        q = self.to_q(self.seed)                                                 # [S, width]
        k, v = self.to_k(members), self.to_v(members)
        step = q.shape[-1] // self.heads
        pieces = []
        for a in range(0, q.shape[-1], step):
            qa, ka, va = q[:, a:a + step], k[..., a:a + step], v[..., a:a + step]
            logit = torch.einsum("sd,bnd->bsn", qa, ka) / math.sqrt(step)
            logit = logit.masked_fill(~real[:, None, :], torch.finfo(logit.dtype).min)
            p = logit.softmax(-1) * real[:, None, :]
            # the product above only matters for the empty clusters
            pieces.append(qa + p @ va)
        h = torch.cat(pieces, dim=-1)
        return h + torch.relu(self.mix(h))
