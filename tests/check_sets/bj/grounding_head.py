"""Phrase grounding head: one heat map per (phrase, head) over the image grid.

Every phrase query looks at the flattened feature map with ``heads`` heads;
each head's map is a probability distribution over the valid pixels of the
image.  The maps feed the mask decoder and the weighted sum of pixel features
is added to the phrase.
"""
import torch
from torch import nn


def sine_grid(h, w, dim):
    """Fixed 2-D position code [h*w, dim] (dim divisible by 4)."""
    f = 10000.0 ** (-torch.arange(dim // 4, dtype=torch.float32) / (dim // 4))
    y = torch.arange(h, dtype=torch.float32)[:, None] * f
    x = torch.arange(w, dtype=torch.float32)[:, None] * f
    y = torch.cat([y.sin(), y.cos()], -1)[:, None].expand(h, w, dim // 2)
    x = torch.cat([x.sin(), x.cos()], -1)[None].expand(h, w, dim // 2)
    return torch.cat([y, x], -1).reshape(h * w, dim)


class PhraseGrounding(nn.Module):
    """
    Args:
        dim:   channels of phrases and of the feature map
        heads: number of heat maps per phrase
    Shapes:
        phrases [B, N, dim], feat [B, dim, H, W], pad [B, H, W] (True = padded)
        -> phrases [B, N, dim], maps [B, N, heads, H, W]
    """

    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Conv2d(dim, dim, 1)
        self.v = nn.Conv2d(dim, dim, 1)
        self.out = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        for m in (self.q, self.k):
            nn.init.xavier_uniform_(m.weight.flatten(1) if m.weight.dim() > 2 else m.weight)

    def forward(self, phrases, feat, pad=None):
        b, n, c = phrases.shape
        hh, ww = feat.shape[-2:]
        pos = sine_grid(hh, ww, c).to(feat).T.reshape(1, c, hh, ww)
        q = self.q(phrases).view(b, n, self.heads, self.head_dim) * self.head_dim**-0.5
        k = self.k(feat + pos).view(b, self.heads, self.head_dim, hh * ww)
        v = self.v(feat).view(b, self.heads, self.head_dim, hh * ww)

        w = torch.einsum("bnhc,bhcp->bnhp", q, k)
        if pad is not None:
            w = w.masked_fill(pad.flatten(1)[:, None, None], float("-inf"))
        w = w.flatten(2).softmax(-1).view_as(w)
        got = torch.einsum("bnhp,bhcp->bnhc", w, v).reshape(b, n, c)
        return self.norm(phrases + self.out(got)), w.unflatten(-1, (hh, ww))


class MaskDecoder(nn.Module):
    """Turns the heat maps into one logit mask per phrase."""

    def __init__(self, heads, hidden=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(heads, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, 1, 3, padding=1)
        )

    def forward(self, maps):
        b, n = maps.shape[:2]
        return self.net(maps.flatten(0, 1)).view(b, n, *maps.shape[-2:])


if __name__ == "__main__":
    head, dec = PhraseGrounding(), MaskDecoder(4)
    p, m = head(torch.randn(2, 3, 64), torch.randn(2, 64, 5, 6))
    print(p.shape, dec(m).shape)
