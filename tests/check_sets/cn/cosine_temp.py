"""Cosine attention for the arm controller (tokens = joints, gripper, camera).

Queries and keys are L2-normalised, so the logits are cosines; they are multiplied
by a learned temperature per head (Swin v2), capped at 100.  There is no
1/sqrt(d): unit vectors do not need it.
"""
import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CosineAttention(nn.Module):
    def __init__(self, width: int = 40, n_head: int = 5, init_temp: float = 10.0):
        super().__init__()
        assert width % n_head == 0
        self.n_head = n_head
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)
        self.log_temp = nn.Parameter(torch.full((n_head, 1, 1), math.log(init_temp)))

    def forward(self, tokens: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """
        tokens: [B, N, width]
        bias:   optional float [N, N], added to the logits of every head (query,
                key).  We use it for the kinematic distance between joints;
                -inf forbids a pair, every row must leave something open.
        """
        q = rearr(self.q(tokens), self.n_head)
        k = rearr(self.k(tokens), self.n_head)
        v = rearr(self.v(tokens), self.n_head)
        temp = self.log_temp.clamp(max=math.log(100.0)).exp()
        logits = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(2, 3) * temp
        if bias is not None:
            logits = logits + bias
        y = F.softmax(logits, dim=-1) @ v
        return self.o(y.transpose(1, 2).flatten(start_dim=2))


def rearr(x: Tensor, heads: int) -> Tensor:
    """[B, N, H*d] -> [B, H, N, d]"""
    b, n, w = x.shape
    return x.view(b, n, heads, w // heads).transpose(1, 2)


class ArmPolicy(nn.Module):
    """[B, N, width] -> torques [B, N]"""

    def __init__(self, width=40, layers=2):
        super().__init__()
        self.attn = nn.ModuleList([CosineAttention(width) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.head = nn.Linear(width, 1)

    def forward(self, tokens, bias=None):
        # res-post-norm as in Swin v2
        for a, n in zip(self.attn, self.norm):
            tokens = tokens + n(a(tokens, bias))
        return self.head(tokens)[..., 0]
