import torch
from torch import nn
import torch.nn.functional as F


class LipReader(nn.Module):
    """Audio frames ask video frames.

    audio (B, Ta, da), video (B, Tv, dv)
    bias (B, 1, Ta, Tv) or (1, 1, Ta, Tv) float, added to the logits:
    0.0 where audio may look at the video frame, -inf where it may not.
    """

    def __init__(self, da, dv, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.na, self.nv = nn.LayerNorm(da), nn.LayerNorm(dv)
        self.q = nn.Linear(da, width)
        self.k = nn.Linear(dv, width)
        self.v = nn.Linear(dv, width)
        self.o = nn.Linear(width, da)
        self.ff = nn.Sequential(nn.LayerNorm(da), nn.Linear(da, 2 * da), nn.SiLU(), nn.Linear(2 * da, da))

    def forward(self, audio, video, bias):
        heads = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        a, m = self.na(audio), self.nv(video)
        q, k, v = heads(self.q(a)), heads(self.k(m)), heads(self.v(m))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(torch.bool))
        x = audio + self.o(y.transpose(1, 2).flatten(2))
        return x + self.ff(x)
