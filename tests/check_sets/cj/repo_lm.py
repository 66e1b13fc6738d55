"""Grouped-query attention for the repository-level code model."""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class GroupedQueryAttention(nn.Module):
    """Causal self-attention with fewer key/value heads than query heads.

    As in Llama: with ``n_heads=6`` and ``n_kv_heads=2`` the query heads 0, 1, 2
    read kv head 0 and the query heads 3, 4, 5 read kv head 1.
    """

    def __init__(self, dim: int = 48, n_heads: int = 6, n_kv_heads: int = 2):
        super().__init__()
        if n_heads % n_kv_heads:
            raise ValueError("n_heads must be a multiple of n_kv_heads")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.n_rep = n_heads // n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x: torch.Tensor, file_ids: Optional[torch.Tensor] = None) -> torch.Tensor:
        """x: (B, T, dim). file_ids: (B, T), tokens only attend inside their own file."""
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv_heads, self.head_dim).transpose(1, 2)

        # bring k and v to n_heads
        k = k.repeat(1, self.n_rep, 1, 1)
        v = v.repeat(1, self.n_rep, 1, 1)

        allowed = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        if file_ids is not None:
            same = file_ids[:, :, None] == file_ids[:, None, :]
            allowed = (allowed & same)[:, None]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.wo(out.transpose(1, 2).flatten(2))
