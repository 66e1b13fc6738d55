import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

# Pre-training with packed documents: several documents share one row of the batch, `doc_ids` tells
# which token belongs to which (0 = padding at the end). No attention across documents, and positions
# restart at the beginning of each of them.


def positions_from_docs(doc_ids: Tensor) -> Tensor:
    """[[1,1,1,2,2,0]] -> [[0,1,2,0,1,0]]"""
    B, T = doc_ids.shape
    t = torch.arange(T, device=doc_ids.device).expand(B, T)
    is_start = torch.ones_like(doc_ids, dtype=torch.bool)
    is_start[:, 1:] = doc_ids[:, 1:] != doc_ids[:, :-1]
    start = torch.where(is_start, t, torch.zeros_like(t)).cummax(dim=1).values
    return t - start


def rotate(x: Tensor, pos: Tensor, base: float = 10000.0) -> Tensor:
    # x: B H T D with pairs (d, d + D/2)
    half = x.size(-1) // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos[:, None, :, None] * freq
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x.split(half, dim=-1)
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)


class PackedAttention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, qk_norm: bool = True):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, width // heads
        self.w_in = nn.Linear(width, (heads + 2 * kv_heads) * self.hd, bias=False)
        self.w_out = nn.Linear(width, width, bias=False)
        self.qn = nn.RMSNorm(self.hd) if qk_norm else nn.Identity()
        self.kn = nn.RMSNorm(self.hd) if qk_norm else nn.Identity()

    def forward(self, x: Tensor, doc_ids: Tensor) -> Tensor:
        B, T, W = x.shape
        fused = self.w_in(x).view(B, T, self.heads + 2 * self.kv_heads, self.hd).transpose(1, 2)
        q, k, v = fused.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        pos = positions_from_docs(doc_ids)
        q, k = rotate(self.qn(q), pos), rotate(self.kn(k), pos)

        same = doc_ids[:, :, None] == doc_ids[:, None, :]
        tri = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        # padding tokens see each other; their rows are dropped by the loss
        mask = (same & tri)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.w_out(y.transpose(1, 2).reshape(B, T, W))


class PackedBlock(nn.Module):
    def __init__(self, width=64, heads=8, kv_heads=2):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attn = PackedAttention(width, heads, kv_heads)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, doc_ids: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x), doc_ids)
        return x + self.ff(self.n2(x))
