"""Local attention with global memory tokens for long newspaper articles.

A few learned memory vectors are put in front; everybody may read them and they
read everything.  An article token besides sees only the `window` most recent article
tokens, itself included (window=1: only itself), never the future.

This version builds the full mask, it is meant for articles up to a few thousand tokens.
"""
import torch
import torch.nn as nn


def local_mask(length: int, window: int, n_mem: int, device=None) -> torch.Tensor:
    """bool [n_mem + length, n_mem + length], True = may attend."""
    i = torch.arange(length, device=device).unsqueeze(1)
    j = torch.arange(length, device=device).unsqueeze(0)
    dist = i - j
    local = (dist >= 0) & (dist <= window)
    full = torch.ones(n_mem + length, n_mem + length, dtype=torch.bool, device=device)
    full[n_mem:, n_mem:] = local
    return full


class LocalMemoryAttention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, window: int = 4, n_mem: int = 2):
        super().__init__()
        if window < 1:
            raise ValueError("window must be at least 1")
        self.heads, self.window, self.n_mem = heads, window, n_mem
        self.memory = nn.Parameter(torch.randn(n_mem, dim) * 0.1)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens [B, L, dim] -> [B, L, dim] (the memory rows are cut off again)"""
        B, L, D = tokens.shape
        mem = self.memory.unsqueeze(0).expand(B, -1, -1)
        x = self.norm(torch.cat([mem, tokens], dim=1))
        N = x.shape[1]
        q, k, v = (
            t.reshape(B, N, self.heads, D // self.heads).transpose(1, 2)
            for t in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-1, -2) * (D // self.heads) ** -0.5
        may = local_mask(L, self.window, self.n_mem, tokens.device)
        scores = scores.masked_fill(~may, float("-inf"))
        y = scores.softmax(dim=-1) @ v
        y = self.out(y.transpose(1, 2).reshape(B, N, D))
        return tokens + y[:, self.n_mem:]
