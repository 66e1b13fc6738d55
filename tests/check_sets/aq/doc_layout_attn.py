"""Text + layout self attention for invoices and forms (scores biased by 1-D and 2-D offsets)."""
import math
import torch
from torch import nn


def bucket(rel, n_buckets=32, max_dist=128):
    """T5 buckets, both directions"""
    n_buckets //= 2
    ret = (rel > 0).long() * n_buckets
    n = rel.abs()
    exact = n_buckets // 2
    large = exact + (torch.log(n.float().clamp_min(1) / exact) / math.log(max_dist / exact) * (n_buckets - exact)).long()
    large = large.clamp_max(n_buckets - 1)
    return ret + torch.where(n < exact, n, large)


class LayoutBias(nn.Module):
    def __init__(self, heads, n_buckets=32):
        super().__init__()
        self.n = n_buckets
        self.seq = nn.Embedding(n_buckets, heads)
        self.horiz = nn.Embedding(n_buckets, heads)
        self.vert = nn.Embedding(n_buckets, heads)

    def forward(self, position, bbox):
        """position [B,L]; bbox [B,L,4] as x0 y0 x1 y1 on a 1000 grid. Two biases, [B,H,L,L] each."""
        def table(emb, c, far):
            return emb(bucket(c[:, None, :] - c[:, :, None], self.n, far)).permute(0, 3, 1, 2)
        one_d = table(self.seq, position, 128)
        two_d = table(self.horiz, bbox[..., 0], 256) + table(self.vert, bbox[..., 3], 256)
        return one_d, two_d


class FormSelfAttention(nn.Module):
    """The biases share the 1/sqrt(d) factor with the dot products (as the released weights want it).

    mask [B, L]: 1 token, 0 padding; every page has a token.  Softmax is taken with the alpha trick
    (scores / alpha, minus max, times alpha), which equals the plain softmax
    and keeps fp16 away from overflow.
    """

    def __init__(self, hidden, heads, alpha=32.0):
        super().__init__()
        self.heads, self.hd, self.alpha = heads, hidden // heads, alpha
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))

    def _h(self, x):
        return x.unflatten(-1, (self.heads, self.hd)).transpose(1, 2)

    def stable_softmax(self, s):
        small = s / self.alpha
        top = small.amax(dim=-1, keepdim=True)
        return torch.softmax((small - top) * self.alpha, dim=-1)

    def forward(self, x, mask, one_d, two_d):
        q, k, v = self._h(self.query(x)), self._h(self.key(x)), self._h(self.value(x))
        s = (q / math.sqrt(self.hd)) @ k.transpose(-1, -2)
        s = s + (one_d + two_d) / math.sqrt(self.hd)
        s = s.masked_fill(mask[:, None, None, :] == 0, torch.finfo(s.dtype).min)
        ctx = self.stable_softmax(s) @ v
        return ctx.transpose(1, 2).flatten(2)
