# Sequences of a batch are packed back to back, no padding anywhere. Encoder for embedding models.
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def unpad_input(hidden: Tensor, attention_mask: Tensor):
    """(B, L, D), (B, L) -> (total, D), indices (total,), cu_seqlens (B + 1,)"""
    seqlens = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(attention_mask.flatten(), as_tuple=False).flatten()
    cu_seqlens = F.pad(torch.cumsum(seqlens, dim=0, dtype=torch.int32), (1, 0))
    return hidden.flatten(0, 1)[indices], indices, cu_seqlens


def pad_output(x: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    out = x.new_zeros(batch * seqlen, x.shape[-1])
    out[indices] = x
    return out.view(batch, seqlen, -1)


def rotary_unpadded(qk: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    # qk: (total, 2, H, D)
    d = qk.shape[-1]
    freqs = positions[:, None].to(qk.dtype) * base ** (-torch.arange(0, d, 2, device=qk.device).to(qk.dtype) / d)
    cos, sin = freqs.cos()[:, None, None], freqs.sin()[:, None, None]
    a, b = qk.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class UnpaddedAttention(nn.Module):
    def __init__(self, dim: int, heads: int, local_attention: int = -1):
        super().__init__()
        self.heads = heads
        self.Wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.Wo = nn.Linear(dim, dim, bias=False)
        # a token sees local_attention // 2 neighbours on each side
        self.half_window = local_attention // 2 if local_attention > 0 else None

    def forward(self, x: Tensor, cu_seqlens: Tensor) -> Tensor:
        total, dim = x.shape
        lens = (cu_seqlens[1:] - cu_seqlens[:-1]).long()
        seq_id = torch.repeat_interleave(torch.arange(len(lens), device=x.device), lens)
        pos = torch.arange(total, device=x.device) - cu_seqlens[:-1].long()[seq_id]

        qkv = self.Wqkv(x).view(total, 3, self.heads, dim // self.heads)
        qk = rotary_unpadded(qkv[:, :2], pos)
        q, k, v = qk[:, 0], qk[:, 1], qkv[:, 2]

        allowed = seq_id[:, None] == seq_id[None, :]
        if self.half_window is not None:
            allowed = allowed & ((pos[:, None] - pos[None, :]).abs() <= self.half_window)
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (q, k, v))     # 1, H, total, D
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.Wo(o.squeeze(0).transpose(0, 1).reshape(total, dim))


class UnpaddedEncoder(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, layers: int = 2, local_attention: int = 6):
        super().__init__()
        self.attn = nn.ModuleList(
            UnpaddedAttention(dim, heads, -1 if i % 2 == 0 else local_attention) for i in range(layers))
        self.norm1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.norm2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(layers))

    def forward(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """hidden (B, L, D), attention_mask (B, L): 1 = token, 0 = padding"""
        B, L, _ = hidden.shape
        x, indices, cu_seqlens = unpad_input(hidden, attention_mask)
        for attn, n1, n2, mlp in zip(self.attn, self.norm1, self.norm2, self.mlp):
            x = x + attn(n1(x), cu_seqlens)
            x = x + mlp(n2(x))
        return pad_output(x, indices, B, L)
