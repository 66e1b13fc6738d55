"""Live captioning: attention over audio that arrives in chunks.

Each chunk of frames attends to itself (in full, both directions, as the whole
chunk is there when it is processed) and to the last `memory` frames before it.
The caller keeps the state that `step` returns and hands it in with the next
chunk; `None` starts a new call.  There is no look-ahead beyond the chunk.
"""
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn


class ListenState(NamedTuple):
    k: Tensor          # batch, heads, <= memory, head_dim
    v: Tensor
    frames_seen: int


class ChunkListener(nn.Module):
    def __init__(self, dim: int = 24, heads: int = 3, memory: int = 5):
        super().__init__()
        self.heads, self.memory = heads, memory
        self.pre = nn.LayerNorm(dim)
        self.q_proj = nn.Linear(dim, dim)
        self.kv_proj = nn.Linear(dim, 2 * dim)
        self.o_proj = nn.Linear(dim, dim)

    def _to_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def step(self, chunk: Tensor, state: Optional[ListenState] = None) -> Tuple[Tensor, ListenState]:
        h = self.pre(chunk)
        q = self._to_heads(self.q_proj(h))
        k, v = map(self._to_heads, self.kv_proj(h).chunk(2, -1))
        seen = 0
        if state is not None:
            k = torch.cat((state.k, k), dim=2)
            v = torch.cat((state.v, v), dim=2)
            seen = state.frames_seen
        ctx = nn.functional.scaled_dot_product_attention(q, k, v)
        out = chunk + self.o_proj(ctx.transpose(1, 2).flatten(2))
        kept = ListenState(k[:, :, -self.memory:], v[:, :, -self.memory:], seen + chunk.shape[1])
        return out, kept

    def forward(self, audio: Tensor, chunk_len: int = 4) -> Tensor:
        """A whole recording at once, as it would have come out live."""
        state, outs = None, []
        for piece in audio.split(chunk_len, dim=1):
            y, state = self.step(piece, state)
            outs.append(y)
        return torch.cat(outs, dim=1)
