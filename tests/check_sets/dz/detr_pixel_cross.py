"""Cross-attention of object queries to an image feature map, post-norm as in DETR.

    tgt      (Q, B, C)     object queries, query first
    qpos     (Q, B, C)     learned query positions, added to q only
    feat     (B, C, H, W)  backbone features
    pos      (B, C, H, W)  sine positions, added to the keys, not to the values
    padding  (B, H, W)     bool; True on the pixels that were only added to make a batch of
                           images of different sizes; these carry no content and get no weight
    returns  (Q, B, C)
"""
import torch
from torch import nn
import torch.nn.functional as F


class PixelCross(nn.Module):
    def __init__(self, c, nhead=4):
        super().__init__()
        self.nhead = nhead
        self.wq, self.wk, self.wv = nn.Linear(c, c), nn.Linear(c, c), nn.Linear(c, c)
        self.wo = nn.Linear(c, c)
        self.norm = nn.LayerNorm(c)

    def _split(self, t):
        """(L, B, C) -> (B, heads, L, C/heads)"""
        L, B, C = t.shape
        return t.view(L, B, self.nhead, C // self.nhead).permute(1, 2, 0, 3)

    def forward(self, tgt, qpos, feat, pos, padding):
        mem = feat.flatten(2).permute(2, 0, 1)
        where = pos.flatten(2).permute(2, 0, 1)
        q = self._split(self.wq(tgt + qpos))
        k = self._split(self.wk(mem + where))
        v = self._split(self.wv(mem))

        pix = padding.flatten(1)[:, None, None, :]
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=pix)

        o = o.permute(2, 0, 1, 3).flatten(2)
        return self.norm(tgt + self.wo(o))
