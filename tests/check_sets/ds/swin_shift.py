"""Shifted-window attention without position bias, weights taken over from a timm checkpoint."""
import torch
import torch.nn.functional as F
from torch import nn


def shift_mask(side, win, shift):
    """(nW, win*win, win*win) additive mask: 0 between pixels that were neighbours
    before the cyclic shift, -inf between pixels that were not."""
    zone = torch.zeros(side, side)
    cuts = (slice(0, -win), slice(-win, -shift), slice(-shift, None))
    n = 0
    for a in cuts:
        for b in cuts:
            zone[a, b] = n
            n += 1
    zone = zone.view(side // win, win, side // win, win).transpose(1, 2).reshape(-1, win * win)
    differ = zone[:, None, :] != zone[:, :, None]
    return torch.zeros(differ.shape).masked_fill(differ, float("-inf"))


class ShiftedWindows(nn.Module):
    """Self-attention inside each window.

    x     (B, nW, N, D)   N pixels of each of nW windows
    mask  None or (nW, N, N) additive, as made by ``shift_mask``: 0 = may be seen,
          -inf = may not be seen
    out   (B, nW, N, D)

    qkv.weight (3D, D) as in timm: the first D rows give q, the next D rows k, the
    last D rows v; inside each, head after head.
    """

    def __init__(self, D, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)

    def forward(self, x, mask=None):
        B, W, N, D = x.shape
        qkv = self.qkv(x).view(B, W, N, self.heads, 3, D // self.heads)
        q, k, v = qkv.permute(4, 0, 1, 3, 2, 5)
        if mask is not None:
            mask = mask.unsqueeze(1).to(torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(y.transpose(2, 3).reshape(B, W, N, D))
