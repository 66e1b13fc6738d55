"""Segment-wise bidirectional encoder with a memory of the previous segment.

Like Transformer-XL the hidden states of the last segment are kept (detached)
and can be attended to, but there is no causal mask: inside the segment and to
the memory everything is visible.  Distances are handled by a symmetric ALiBi,
-slope_h * |pos_q - pos_k|, where memory and segment form one running text (the
memory lies directly before the segment).  slope_h = 2^(-8h/H), h = 1..H, with H
a power of two.
"""
import torch
from torch import nn


class SegmentEncoder(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, mem_len: int = 6):
        super().__init__()
        assert heads & (heads - 1) == 0
        self.heads = heads
        self.mem_len = mem_len
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        h = torch.arange(1, heads + 1, dtype=torch.float32)
        self.register_buffer("slopes", 2.0 ** (-8.0 * h / heads))

    def distance_bias(self, n_query: int, n_key: int) -> torch.Tensor:
        query_pos = torch.arange(n_query, device=self.slopes.device)
        key_pos = torch.arange(n_key, device=self.slopes.device)
        dist = (query_pos.unsqueeze(1) - key_pos.unsqueeze(0)).abs()
        return -self.slopes.view(-1, 1, 1) * dist

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None):
        """x [B, T, dim], memory [B, M, dim] -> (y [B, T, dim], new memory)"""
        bsz, t, dim = x.shape
        joint = x if memory is None else torch.cat([memory, x], dim=1)
        s = joint.shape[1]
        hd = dim // self.heads

        q = self.q(self.norm(x)).view(bsz, t, self.heads, hd)
        kv = self.kv(self.norm(joint)).view(bsz, s, 2, self.heads, hd)
        k, v = kv[:, :, 0], kv[:, :, 1]

        logits = torch.einsum("bihc,bjhc->bhij", q, k) * hd**-0.5
        logits = logits + self.distance_bias(t, s)
        weights = torch.softmax(logits, dim=-1)
        y = torch.einsum("bhij,bjhc->bihc", weights, v).reshape(bsz, t, dim)
        return x + self.out(y), joint[:, -self.mem_len :].detach()

    def encode_long(self, x: torch.Tensor, segment: int = 5) -> torch.Tensor:
        memory, outs = None, []
        for part in x.split(segment, dim=1):
            y, memory = self(part, memory)
            outs.append(y)
        return torch.cat(outs, dim=1)
