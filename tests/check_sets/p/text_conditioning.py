import torch
from torch import nn


class TextCrossAttention(nn.Module):
    """Pixels (B, N, dim) attend to the tokens of the prompt (B, M, ctx_dim)."""

    def __init__(self, dim=16, ctx_dim=12, n_heads=2, head_dim=8):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, head_dim
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, n_heads * head_dim, bias=False)
        self.to_k = nn.Linear(ctx_dim, n_heads * head_dim, bias=False)
        self.to_v = nn.Linear(ctx_dim, n_heads * head_dim, bias=False)
        self.to_out = nn.Linear(n_heads * head_dim, dim)

    def forward(self, x, context):
        b, n, _ = x.shape
        q = self.to_q(self.norm(x)).reshape(b, n, self.n_heads, self.head_dim)
        k = self.to_k(context).reshape(b, n, self.n_heads, self.head_dim)
        v = self.to_v(context).reshape(b, n, self.n_heads, self.head_dim)
        attn = torch.einsum("bnhd,bmhd->bhnm", q, k) * self.head_dim**-0.5
        out = torch.einsum("bhnm,bmhd->bnhd", attn.softmax(dim=-1), v)
        return x + self.to_out(out.reshape(b, n, -1))
