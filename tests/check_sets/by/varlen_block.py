"""Encoder block for packed batches (no padding tokens).

All sentences of a batch lie one behind the other in a [total, dim] tensor;
`cu_seqlens` = [0, n0, n0+n1, ...] says where each one starts.  A token sees
exactly the tokens of its own sentence, in both directions.
"""
import torch
from torch import Tensor, nn


def segment_ids(cu_seqlens: Tensor, total: int) -> Tensor:
    pos = torch.arange(total, device=cu_seqlens.device)
    return torch.bucketize(pos, cu_seqlens[1:], right=True)


class PackedEncoderBlock(nn.Module):
    def __init__(self, dim: int = 24, num_heads: int = 3, mlp_ratio: int = 2) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim)
        )

    def attention(self, x: Tensor, seg: Tensor) -> Tensor:
        total, dim = x.shape
        # (total, 3, heads, hd) -> (3, heads, total, hd)
        qkv = self.qkv(x).view(total, 3, self.num_heads, -1).permute(1, 2, 0, 3)
        q, k, v = qkv.unbind(0)
        blocked = seg[:, None] != seg[None, :]
        s = torch.bmm(q, k.transpose(1, 2)) / (q.shape[-1] ** 0.5)
        s = s.masked_fill(blocked, float("-inf"))
        w = torch.softmax(s, dim=-1)
        return self.proj(torch.bmm(w, v).permute(1, 0, 2).reshape(total, dim))

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        seg = segment_ids(cu_seqlens, x.shape[0])
        x = x + self.attention(self.norm1(x), seg)
        return x + self.mlp(self.norm2(x))


if __name__ == "__main__":
    block = PackedEncoderBlock()
    lens = torch.tensor([3, 5, 2])
    cu = torch.cat([torch.zeros(1, dtype=torch.long), lens.cumsum(0)])
    print(block(torch.randn(10, 24), cu).shape)
