"""Companion code of the post "Flash attention in plain PyTorch, tile by tile".

Nothing here is fast: the point is to have every running statistic in a
variable you can print.  The layer is an ordinary causal multi-head
self-attention; only the evaluation order is that of the paper (an outer loop
over query tiles, an inner loop over key tiles, never the whole L x L matrix).
"""
import math

import torch
from torch import nn


class TiledSelfAttention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, tile_q: int = 4, tile_k: int = 3):
        super().__init__()
        if dim % heads:
            raise ValueError("dim must be a multiple of heads")
        self.heads, self.hd = heads, dim // heads
        self.tile_q, self.tile_k = tile_q, tile_k
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def _row_of_tiles(self, q, k, v, q_start):
        """One query tile against all key tiles that it may see."""
        rows = q.shape[2]
        acc = torch.zeros_like(q)
        running_max = q.new_full(q.shape[:3] + (1,), float("-inf"))
        running_sum = q.new_zeros(q.shape[:3] + (1,))
        q_pos = torch.arange(q_start, q_start + rows, device=q.device)

        # keys beyond the last query of this tile are all in the future
        for k_start in range(0, q_start + rows, self.tile_k):
            k_end = min(k_start + self.tile_k, k.shape[2], q_start + rows)
            kt, vt = k[:, :, k_start:k_end], v[:, :, k_start:k_end]
            k_pos = torch.arange(k_start, k_end, device=q.device)

            s = (q @ kt.transpose(-1, -2)) / math.sqrt(self.hd)
            s = s.masked_fill(k_pos[None, :] > q_pos[:, None], float("-inf"))

            new_max = torch.maximum(running_max, s.amax(dim=-1, keepdim=True))
            rescale = torch.exp(running_max - new_max)
            p = torch.exp(s - new_max)
            running_sum = running_sum * rescale + p.sum(dim=-1, keepdim=True)
            acc = acc * rescale + p @ vt
            running_max = new_max
        return acc / running_sum

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, _ = x.shape
        q, k, v = (
            t.view(b, n, self.heads, self.hd).transpose(1, 2)
            for t in self.to_qkv(x).chunk(3, dim=-1)
        )
        tiles = [
            self._row_of_tiles(q[:, :, i : i + self.tile_q], k, v, i)
            for i in range(0, n, self.tile_q)
        ]
        y = torch.cat(tiles, dim=2)
        return self.out(y.transpose(1, 2).reshape(b, n, -1))


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = TiledSelfAttention()
    print(layer(torch.randn(2, 10, 32)).shape)
