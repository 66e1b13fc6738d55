"""Text cross attention of the latent diffusion UNet (product photos), with prompt padding mask."""
import torch
import torch.nn.functional as F
from torch import nn


class TextCrossAttention(nn.Module):
    """pixels [B, N, C], text [B, M, Ct], text_mask [B, M] bool: True = token of the prompt.

    Heads are folded in the batch dimension so that baddbmm can be used; the
    start token is always there.
    """

    def __init__(self, dim, text_dim, heads=4, head_dim=16):
        super().__init__()
        inner = heads * head_dim
        self.heads, self.head_dim = heads, head_dim
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_k = nn.Linear(text_dim, inner, bias=False)
        self.to_v = nn.Linear(text_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def head_to_batch(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.head_dim).permute(0, 2, 1, 3).reshape(b * self.heads, n, self.head_dim)

    def batch_to_head(self, t):
        bh, n, d = t.shape
        return t.view(bh // self.heads, self.heads, n, d).permute(0, 2, 1, 3).reshape(bh // self.heads, n, -1)

    def forward(self, pixels, text, text_mask=None):
        n, m = pixels.shape[1], text.shape[1]
        q = self.head_to_batch(self.to_q(pixels))
        k = self.head_to_batch(self.to_k(text))
        v = self.head_to_batch(self.to_v(text))
        bias = torch.zeros(q.shape[0], n, m, dtype=q.dtype, device=q.device)
        if text_mask is not None:
            drop = ~text_mask[:, None, :].expand(-1, n, -1)
            bias = bias.masked_fill(drop.repeat(self.heads, 1, 1), float("-inf"))
        s = torch.baddbmm(bias, q, k.transpose(1, 2), beta=1, alpha=self.head_dim ** -0.5)
        return self.to_out(self.batch_to_head(torch.bmm(s.softmax(-1), v)))


class GEGLU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a, self.b = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        h, g = self.a(x).chunk(2, -1)
        return self.b(h * F.gelu(g))


class SpatialText(nn.Module):
    """[B, C, H, W] in and out"""

    def __init__(self, channels, text_dim, heads=4):
        super().__init__()
        self.gn = nn.GroupNorm(4, channels)
        self.n1, self.n2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.cross = TextCrossAttention(channels, text_dim, heads, channels // heads)
        self.ff = GEGLU(channels)

    def forward(self, img, text, text_mask=None):
        b, c, h, w = img.shape
        x = self.gn(img).flatten(2).transpose(1, 2)
        x = x + self.cross(self.n1(x), text, text_mask)
        x = x + self.ff(self.n2(x))
        return img + x.transpose(1, 2).reshape(b, c, h, w)
