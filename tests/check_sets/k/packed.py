import torch
import torch.nn as nn


class PackedAttention(nn.Module):
    """Self-attention with one packed projection.

    The rows of in_proj.weight are [all of q; all of k; all of v], as in torch.nn.MultiheadAttention.
    """

    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        b, n, w = x.shape
        d = w // self.n_heads
        qkv = self.in_proj(x).view(b, n, self.n_heads, 3, d)
        q, k, v = qkv.permute(3, 0, 2, 1, 4)
        a = (q @ k.mT / d ** 0.5).softmax(-1)
        return self.out_proj((a @ v).transpose(1, 2).reshape(b, n, w))
