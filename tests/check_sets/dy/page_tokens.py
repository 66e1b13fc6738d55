"""Document images: attention layer that loads the old Megatron-style checkpoint.

PageAttention(dim, heads).forward(x) -> (B, N, dim)
    x  (B, N, dim) patch tokens, all real
The fused layer `query_key_value` keeps the row order of the checkpoint: for each head in
turn its d query rows, its d key rows, its d value rows (i.e. heads x 3 x d), bias likewise.
`dense` expects the heads next to each other: columns h*d .. (h+1)*d - 1 belong to head h.
Scale 1/sqrt(d), no mask, no dropout.
"""
import torch.nn as nn


class PageAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.dense = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        mixed = self.query_key_value(x)
        mixed = mixed.reshape(B, N, 3, self.heads, self.d)
        q, k, v = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.d ** -0.5) @ k.transpose(-2, -1)
        attn = attn.softmax(dim=-1)
        out = attn @ v
        out = out.reshape(B, N, C)
        return self.dense(out)
