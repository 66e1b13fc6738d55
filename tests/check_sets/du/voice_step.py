"""Streaming ASR decoder layer, changed from whole-utterance to chunk-wise.

Each call brings a chunk of new frames; k and v of everything before are in the state.  A new
frame may look at all the earlier frames and at itself, never at later frames of its own
chunk.  Feeding an utterance in chunks must equal feeding it at once.
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class KVState(NamedTuple):
    k: torch.Tensor      # (B, H, frames so far, d)
    v: torch.Tensor


class StreamingSelfAttention(nn.Module):
    """forward(chunk (B, n, D), state or None) -> (B, n, D), new state."""

    def __init__(self, D: int = 256, H: int = 4):
        super().__init__()
        self.H = H
        self.in_proj = nn.Linear(D, 3 * D)
        self.out_proj = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, chunk: torch.Tensor, state: Optional[KVState] = None):
        B, n, D = chunk.shape
        x = self.norm(chunk)
        q, k, v = (
            t.reshape(B, n, self.H, D // self.H).transpose(1, 2)
            for t in self.in_proj(x).chunk(3, dim=-1)
        )
        if state is not None:
            k = torch.cat((state.k, k), dim=2)
            v = torch.cat((state.v, v), dim=2)
        new_state = KVState(k, v)
        if n == 1:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(B, n, D)
        return chunk + self.out_proj(y), new_state
