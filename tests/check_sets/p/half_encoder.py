import torch
from torch import nn


class HalfEncoder(nn.Module):
    """Runs in float32 and, after .half(), in float16.  mask (B, S) bool, False at padding."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = [nn.Linear(dim, dim, bias=False) for _ in range(4)]

    def forward(self, x, mask):
        B, S, D = x.shape
        h = lambda z: z.reshape(B, S, self.heads, -1).transpose(1, 2)
        q, k, v = h(self.wq(x)), h(self.wk(x)), h(self.wv(x))
        dots = torch.matmul(q, k.transpose(-1, -2)) * (D // self.heads) ** -0.5
        mask_value = -1e9
        dots = dots.masked_fill(~mask[:, None, None, :], mask_value)
        attn = dots.softmax(dim=-1)
        return self.wo(torch.matmul(attn, v).transpose(1, 2).reshape(B, S, D))
