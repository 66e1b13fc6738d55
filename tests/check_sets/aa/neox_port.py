"""Fused-projection attention used when importing checkpoints.

Most public checkpoints ship q_proj / k_proj / v_proj apart.  We fuse them
into one matrix at load time: one GEMM instead of three.  The fused rows are
all of q, then all of k, then all of v, each split into heads as usual.
"""
from typing import Mapping, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class FusedAttention(nn.Module):
    def __init__(self, dim: int = 24, num_heads: int = 4, bias: bool = True):
        super().__init__()
        self.dim = dim
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)

    @classmethod
    def from_separate(cls, sd: Mapping[str, torch.Tensor], num_heads: int) -> "FusedAttention":
        """Build from a state dict with q_proj, k_proj, v_proj and out_proj."""
        layer = cls(sd["q_proj.weight"].shape[1], num_heads, "q_proj.bias" in sd)
        names = ("q_proj", "k_proj", "v_proj")
        with torch.no_grad():
            layer.qkv.weight.copy_(torch.cat([sd[n + ".weight"] for n in names]))
            layer.out.weight.copy_(sd["out_proj.weight"])
            if layer.qkv.bias is not None:
                layer.qkv.bias.copy_(torch.cat([sd[n + ".bias"] for n in names]))
                layer.out.bias.copy_(sd["out_proj.bias"])
        return layer

    def heads(self, x: torch.Tensor):
        b, n, _ = x.shape
        packed = self.qkv(x)
        packed = packed.view(b, n, self.num_heads, 3, self.head_dim)
        q, k, v = packed.permute(3, 0, 2, 1, 4)
        return q, k, v

    def forward(self, x: torch.Tensor, key_padding: Optional[torch.Tensor] = None) -> torch.Tensor:
        """key_padding: [B, N], True at the padded positions."""
        b, n, _ = x.shape
        q, k, v = self.heads(x)
        keep = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        keep = keep[None, None]
        if key_padding is not None:
            keep = keep & ~key_padding[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.out(y.transpose(1, 2).reshape(b, n, self.dim))


if __name__ == "__main__":
    d = 24
    parts = {f"{p}.weight": torch.randn(d, d) for p in ("q_proj", "k_proj", "v_proj", "out_proj")}
    layer = FusedAttention.from_separate(parts, num_heads=4)
    print(layer(torch.randn(2, 5, d)).shape)
