"""流式语音识别:按块(chunk)计算的自注意力,带左侧缓存。

训练 / 整句推理:``forward`` 用块掩码,第 c 块的帧能看到自己这一块的全部帧,
以及之前 ``left_chunks`` 块的帧。
流式推理:``forward_chunk`` 每次收一块,K/V 缓存最多保留 left_chunks 块。
两种方式结果一致。
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn


class ChunkAttention(nn.Module):
    def __init__(self, size: int = 32, heads: int = 4, chunk: int = 4, left_chunks: int = 2):
        super().__init__()
        self.h = heads
        self.d_k = size // heads
        self.chunk = chunk
        self.left_chunks = left_chunks
        self.linear_q = nn.Linear(size, size)
        self.linear_k = nn.Linear(size, size)
        self.linear_v = nn.Linear(size, size)
        self.linear_out = nn.Linear(size, size)

    def forward_qkv(self, x: torch.Tensor):
        b, t, _ = x.size()
        shape = (b, t, self.h, self.d_k)
        q = self.linear_q(x).view(shape).transpose(1, 2)
        k = self.linear_k(x).view(shape).transpose(1, 2)
        v = self.linear_v(x).view(shape).transpose(1, 2)
        return q, k, v

    def chunk_mask(self, t: int, device=None) -> torch.Tensor:
        """(T, T),True 表示可见"""
        c = torch.arange(t, device=device) // self.chunk
        diff = c[:, None] - c[None, :]
        return (diff >= 0) & (diff <= self.left_chunks)

    def attend(self, q, k, v, visible: Optional[torch.Tensor]) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) * (self.d_k ** -0.5)
        if visible is not None:
            scores = scores.masked_fill(visible.logical_not(), -float("inf"))
        attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(attn, v)
        return self.linear_out(x.transpose(1, 2).contiguous().view(x.size(0), -1, self.h * self.d_k))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.forward_qkv(x)
        return self.attend(q, k, v, self.chunk_mask(x.size(1), x.device))

    def forward_chunk(
        self, x: torch.Tensor, cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None
    ) -> Tuple[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
        """x: (B, t, size),t <= chunk(只有最后一块可以更短)"""
        q, k, v = self.forward_qkv(x)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        y = self.attend(q, k, v, None)
        keep = min(self.left_chunks * self.chunk, k.size(2))
        start = k.size(2) - keep
        return y, (k[:, :, start:], v[:, :, start:])


if __name__ == "__main__":
    att = ChunkAttention().eval()
    x = torch.randn(1, 18, 32)
    cache, outs = None, []
    for piece in x.split(att.chunk, dim=1):
        y, cache = att.forward_chunk(piece, cache)
        outs.append(y)
    print((att(x) - torch.cat(outs, 1)).abs().max().item())
