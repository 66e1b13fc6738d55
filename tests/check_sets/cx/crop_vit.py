"""Encoder attention for crop disease photos; we load weights of torch's MultiheadAttention."""
import torch
import torch.nn as nn


class FieldAttention(nn.Module):
    """Same function as nn.MultiheadAttention(dim, heads, batch_first=True) on (x, x, x).

    `fused` takes over in_proj_weight / in_proj_bias unchanged: the first dim rows are the queries of
    all heads, the next dim rows the keys, the last dim rows the values; within each of the three
    the heads come one after another.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.fused = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    @classmethod
    def from_torch(cls, mha):
        new = cls(mha.embed_dim, mha.num_heads)
        with torch.no_grad():
            new.fused.weight.copy_(mha.in_proj_weight)
            new.fused.bias.copy_(mha.in_proj_bias)
            new.out.weight.copy_(mha.out_proj.weight)
            new.out.bias.copy_(mha.out_proj.bias)
        return new

    def forward(self, x):
        B, L, _ = x.shape
        d = self.dim // self.heads
        t = self.fused(x).reshape(B, L, self.heads, 3, d)
        q, k, v = t[..., 0, :], t[..., 1, :], t[..., 2, :]
        w = torch.einsum("blhd,bmhd->bhlm", q * d ** -0.5, k)
        w = w.softmax(dim=-1)
        y = torch.einsum("bhlm,bmhd->blhd", w, v)
        return self.out(y.reshape(B, L, self.dim))
