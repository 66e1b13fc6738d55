"""Masked-attention layer of a Mask2Former style decoder (one scale).

Every object query reads only the pixels that its own mask of the previous
layer covers: foreground = sigmoid(logit) >= 0.5.  A query whose previous mask
is empty reads all pixels.  Then a feed-forward net, post-norm.

``MaskedCross(D, heads, ff, p)``
    obj   : (B, Q, D)          object queries
    pix   : (B, H*W, D)        pixel features, row-major
    prev  : (B, Q, H, W)       mask *logits* of the previous layer
returns (B, Q, D).  Dropout p on the weights acts in training mode only;
inference is deterministic.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedCross(nn.Module):
    def __init__(self, D, heads, ff, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.wq, self.wk = nn.Linear(D, D), nn.Linear(D, D)
        self.wv, self.wo = nn.Linear(D, D), nn.Linear(D, D)
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, ff), nn.ReLU(inplace=True), nn.Linear(ff, D))

    def split(self, t):
        return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

    @torch.no_grad()
    def region(self, prev):
        blocked = prev.sigmoid().flatten(2) < 0.5
        # an empty mask: open everything
        blocked[blocked.all(dim=-1)] = False
        return blocked.unsqueeze(1)

    def forward(self, obj, pix, prev):
        q, k, v = self.split(self.wq(obj)), self.split(self.wk(pix)), self.split(self.wv(pix))
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=self.region(prev),
            dropout_p=self.p,
        )
        obj = self.n1(obj + self.wo(y.transpose(1, 2).flatten(2)))
        return self.n2(obj + self.ff(obj))
