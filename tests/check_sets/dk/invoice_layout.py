"""Field extraction from invoices: self attention with 1D and 2D relative bias
(LayoutLMv3 style), safe in half precision by the "PB-relax" trick of CogView:

    softmax(s) = softmax( (s / alpha - max(s / alpha)) * alpha )

which is the same number, but nothing grows above 0.

LayoutAttention(dim, heads)(x, order, box, pad_mask)
    x         [B, L, dim]
    order     [B, L] int reading order of the words
    box       [B, L, 4] int, x0 y0 x1 y1 on the 0..1000 grid; x0 and y1 are used
    pad_mask  [B, L] 1.0 for words, 0.0 for padding; every page has a word
Scores: q.k / sqrt(dim / heads) + (bias_1d + bias_2d) / sqrt(dim / heads).
"""
import torch
from torch import nn


def bucket(rel, n=16, step=64):
    """signed distance (key minus query) -> 0..n-1; half of the buckets per sign"""
    half = n // 2
    b = (rel.abs() // step).clamp(max=half - 1)
    return torch.where(rel > 0, b + half, b)


class LayoutAttention(nn.Module):
    def __init__(self, dim, heads, alpha=32):
        super().__init__()
        self.h, self.d, self.alpha = heads, dim // heads, alpha
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.b1 = nn.Embedding(16, heads)
        self.bx = nn.Embedding(16, heads)
        self.by = nn.Embedding(16, heads)
        self.dense = nn.Linear(dim, dim)

    def relaxed(self, s):
        z = s / self.alpha
        z = z - z.amax(dim=-1, keepdim=True)
        return (z * self.alpha).softmax(dim=-1)

    def pair_bias(self, order, box):
        rel = lambda t: t[:, None, :] - t[:, :, None]
        b = self.b1(bucket(rel(order), step=1))
        b = b + self.bx(bucket(rel(box[..., 0]))) + self.by(bucket(rel(box[..., 3])))
        return b.permute(0, 3, 1, 2)

    def forward(self, x, order, box, pad_mask):
        B, L, D = x.shape
        q = self.q(x).view(B, L, self.h, self.d).transpose(1, 2)
        k = self.k(x).view(B, L, self.h, self.d).permute(0, 2, 3, 1)
        v = self.v(x).view(B, L, self.h, self.d).transpose(1, 2)
        s = torch.matmul(q / self.d ** 0.5, k) + self.pair_bias(order, box) / self.d ** 0.5
        keep = pad_mask.bool()[:, None, None, :]
        s = torch.where(keep, s, torch.finfo(s.dtype).min)
        y = self.relaxed(s) @ v
        return self.dense(y.transpose(1, 2).flatten(2))
