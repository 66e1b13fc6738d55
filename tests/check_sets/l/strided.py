import torch
import torch.nn.functional as F
from torch import nn


def sparse_layout(n, stride):
    """Causal strided pattern of Child et al. 2019: the last `stride` positions, and every stride-th one before."""
    i = torch.arange(n)[:, None]
    j = torch.arange(n)[None, :]
    return (j <= i) & (((i - j) < stride) | ((i - j) % stride == 0))


class StridedSparseAttention(nn.Module):
    def __init__(self, dim, n_head, stride=3):
        super().__init__()
        self.n_head, self.stride = n_head, stride
        self.c_qkv = nn.Linear(dim, 3 * dim)
        self.c_out = nn.Linear(dim, dim)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.c_qkv(x).view(n, t, 3, self.n_head, c // self.n_head).transpose(1, 3).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sparse_layout(t, self.stride).to(x.device))
        return self.c_out(y.transpose(1, 2).reshape(n, t, c))
