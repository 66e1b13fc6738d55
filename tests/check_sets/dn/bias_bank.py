"""A bank of position biases for attention, and a layer that uses it.

make_bias(kind, heads, length) gives (heads, length, length) floats that are
added to the scaled scores, rows = queries i, columns = keys j <= i:
    "none"    zeros
    "alibi"   -m_h * (i - j).  For `heads` a power of two the slopes of the
              heads h = 1, 2, ..., heads are m_h = 2^(-8 h / heads) (Press et al.)
    "kerple"  -a_h * log(1 + b_h * (i - j)) with a_h = b_h = 1 at the start
              (constants here)
    "sandwich"  sum_k cos((i - j) / 10000^(2k/64)), k = 0..31, the same in all
              heads (Chi et al. 2023)

BiasedCausalAttention(dim, heads, kind)
    forward(x)   x (B, L, dim) -> (B, L, dim); token i reads tokens j <= i,
                 scores q.k / sqrt(dim / heads) + bias
"""
import torch
import torch.nn.functional as F
from torch import nn


def distance(length, device=None):
    i = torch.arange(length, device=device)
    return (i[:, None] - i[None, :]).clamp(min=0).float()


def alibi_slopes(heads):
    if heads & (heads - 1):
        raise ValueError("alibi here wants a power of two")
    step = 2.0 ** (-8.0 / heads)
    return torch.tensor([step ** h for h in range(heads)])


def make_bias(kind, heads, length, device=None):
    dist = distance(length, device)
    if kind == "none":
        return dist.new_zeros(heads, length, length)
    if kind == "alibi":
        return -alibi_slopes(heads).to(device)[:, None, None] * dist
    if kind == "kerple":
        return -torch.log1p(dist).expand(heads, -1, -1)
    if kind == "sandwich":
        freq = 10000.0 ** (-2.0 * torch.arange(32, device=device) / 64)
        return torch.cos(dist[..., None] * freq).sum(-1).expand(heads, -1, -1)
    raise KeyError(kind)


class BiasedCausalAttention(nn.Module):
    def __init__(self, dim, heads, kind="alibi", dropout=0.0):
        super().__init__()
        self.heads, self.kind, self.dropout = heads, kind, dropout
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, L, C = x.shape
        q, k, v = (t.view(B, L, self.heads, -1).transpose(1, 2)
                   for t in self.in_proj(x).split(C, dim=2))
        bias = make_bias(self.kind, self.heads, L, x.device)
        later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        bias = bias.masked_fill(later, float("-inf")).to(q.dtype)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, dropout_p=self.dropout if self.training else 0.0)
        return self.out_proj(y.transpose(1, 2).flatten(2))
