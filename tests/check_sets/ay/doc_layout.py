"""Layout-aware encoder for scanned forms (text + boxes), after LayoutLMv3."""
import math

import torch
import torch.nn as nn


def bucket(rel, n=32, far=128):
    """T5 style buckets for signed relative positions (bidirectional)."""
    n //= 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    exact = n // 2
    log = exact + (torch.log(rel.float().clamp(min=1) / exact) / math.log(far / exact) * (n - exact)).long()
    return out + torch.where(rel < exact, rel, log.clamp(max=n - 1))


class SpatialBias(nn.Module):
    """Bias per head from 1-D order and from x / y distances of the boxes: [B, H, L, L]."""

    def __init__(self, heads, n1=32, n2=64, far1=128, far2=256):
        super().__init__()
        self.cfg = (n1, n2, far1, far2)
        self.seq = nn.Embedding(n1, heads)
        self.x = nn.Embedding(n2, heads)
        self.y = nn.Embedding(n2, heads)

    def forward(self, pos, box):
        n1, n2, f1, f2 = self.cfg
        diff = lambda a: a[:, None, :] - a[:, :, None]
        b = self.seq(bucket(diff(pos), n1, f1))
        b = b + self.x(bucket(diff(box[..., 0]), n2, f2)) + self.y(bucket(diff(box[..., 3]), n2, f2))
        return b.permute(0, 3, 1, 2)


class LayoutSelfAttention(nn.Module):
    """softmax( (Q K^T + bias) / sqrt(d) + mask ) V.

    Half precision safe: the query is scaled first and the softmax is taken the CogView
    way (alpha = 32), which is the same function as the ordinary softmax.

    hidden [B, L, C]; bias [B, H, L, L]; mask [B, 1, 1, L] additive, 0 for tokens and
    finfo.min for padding.
    """

    def __init__(self, dim, heads, p=0.1, alpha=32.0):
        super().__init__()
        if dim % heads != 0:
            raise ValueError("dim %d is no multiple of heads %d" % (dim, heads))
        self.heads, self.d = heads, dim // heads
        self.alpha = alpha
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(p)

    def cogview_softmax(self, scores):
        small = scores / self.alpha
        top = small.amax(dim=-1, keepdim=True)
        return nn.functional.softmax((small - top) * self.alpha, dim=-1)

    def forward(self, hidden, bias, mask):
        B, L, C = hidden.shape
        shape = (B, L, self.heads, self.d)
        q = self.q(hidden).view(shape).transpose(1, 2)
        k = self.k(hidden).view(shape).transpose(1, 2)
        v = self.v(hidden).view(shape).transpose(1, 2)
        scores = torch.matmul(q / math.sqrt(self.d), k.transpose(2, 3))
        scores = scores + bias / math.sqrt(self.d) + mask
        probs = self.dropout(self.cogview_softmax(scores))
        return torch.matmul(probs, v).permute(0, 2, 1, 3).reshape(B, L, C)


class LayoutLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = LayoutSelfAttention(dim, heads)
        self.o = nn.Linear(dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bias, mask):
        x = self.n1(x + self.o(self.att(x, bias, mask)))
        return self.n2(x + self.ff(x))


class FormEncoder(nn.Module):
    def __init__(self, vocab, dim=128, heads=4, layers=3, max_len=512, n_labels=7):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Embedding(max_len, dim)
        part = dim // 4
        self.cx, self.cy = nn.Embedding(1024, part), nn.Embedding(1024, part)
        self.norm = nn.LayerNorm(dim)
        self.bias = SpatialBias(heads)
        self.layers = nn.ModuleList(LayoutLayer(dim, heads) for _ in range(layers))
        self.cls = nn.Linear(dim, n_labels)

    def forward(self, ids, box):
        """ids [B, L], 0 = padding; box [B, L, 4] ints in 0..1000."""
        B, L = ids.shape
        pos = torch.arange(L, device=ids.device).expand(B, L)
        where = torch.cat([self.cx(box[..., 0]), self.cy(box[..., 1]), self.cx(box[..., 2]), self.cy(box[..., 3])], -1)
        x = self.norm(self.tok(ids) + self.pos(pos) + where)
        mask = torch.zeros(B, 1, 1, L, dtype=x.dtype, device=x.device)
        mask = mask.masked_fill((ids == 0)[:, None, None], torch.finfo(x.dtype).min)
        bias = self.bias(pos, box)
        for layer in self.layers:
            x = layer(x, bias, mask)
        return self.cls(x)
