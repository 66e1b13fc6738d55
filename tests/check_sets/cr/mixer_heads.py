import torch
import torch.nn as nn


class MultiHeadMixer(nn.Module):
    """Token mixing with one small MLP for each head, over a fixed number of tokens.

    x: (B, tokens, dim) -> (B, tokens, dim)
    """

    def __init__(self, tokens=10, dim=24, num_heads=3, hidden=16):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Parameter(torch.randn(num_heads, tokens, hidden) * tokens ** -0.5)
        self.w2 = nn.Parameter(torch.randn(num_heads, hidden, tokens) * hidden ** -0.5)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        v = self.norm(x).view(B, N, self.num_heads, D // self.num_heads)
        h = torch.einsum("bnhd,hnm->bmhd", v, self.w1)
        h = torch.nn.functional.gelu(h)
        y = torch.einsum("bmhd,hmn->bnhd", h, self.w2)
        return x + self.out_proj(y.reshape(B, N, D))
