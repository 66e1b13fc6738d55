from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch import Tensor


class MemoryAttention(nn.Module):
    """Attention of the maze agent over a segment plus the memory of earlier segments.

    x:      [B, T, D]  embeddings of the T steps of the current segment, in time order
    memory: [B, M, D]  embeddings of the M steps right before it (oldest first), or None
    Step t of the segment sees the whole memory and steps 0..t of the segment.
    Returns (y [B, T, D], new memory [B, min(M + T, mem_len), D], detached).
    """

    def __init__(self, dim: int = 32, heads: int = 4, mem_len: int = 16):
        super().__init__()
        self.heads, self.mem_len = heads, mem_len
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, memory: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        B, T, D = x.shape
        full = x if memory is None else torch.cat([memory, x], dim=1)       # B S D
        S = full.size(1)
        q = self.q(x).view(B, T, self.heads, -1)                            # B T H d
        k, v = self.kv(full).chunk(2, dim=-1)
        k = k.view(B, S, self.heads, -1)
        v = v.view(B, S, self.heads, -1)

        score = torch.einsum("bthd,bshd->bhts", q, k) * (q.size(-1) ** -0.5)
        causal = torch.tril(torch.ones(T, S, dtype=torch.bool, device=x.device))
        score = score.masked_fill(~causal, float("-inf"))
        y = torch.einsum("bhts,bshd->bthd", score.softmax(-1), v)
        return self.o(y.reshape(B, T, D)), full[:, -self.mem_len:].detach()
