import torch
from torch import nn


class ObjectReader(nn.Module):
    """DETR decoder cross-attention: object queries read a feature map.

    objects (B, n_obj, dim), fmap (B, dim, H, W), hidden (B, H, W) bool with True for the
    padded part of the image (every image has some real pixel).
    Object and pixel positions are added to queries and keys, not to values. Heads are
    scaled dot-product heads. Returns (B, n_obj, dim).
    """

    def __init__(self, dim=32, heads=4, n_obj=6, max_side=20):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.obj_pos = nn.Parameter(torch.randn(n_obj, dim))
        self.row = nn.Parameter(torch.randn(max_side, dim // 2))
        self.col = nn.Parameter(torch.randn(max_side, dim // 2))

    def forward(self, objects, fmap, hidden=None):
        B, C, H, W = fmap.shape
        pos = torch.cat([self.col[:W].expand(H, -1, -1),
                         self.row[:H, None].expand(-1, W, -1)], -1).flatten(0, 1)
        mem = fmap.flatten(2).transpose(1, 2)
        q = self.q(objects + self.obj_pos).unflatten(-1, (self.heads, -1))
        k = self.k(mem + pos).unflatten(-1, (self.heads, -1))
        v = self.v(mem).unflatten(-1, (self.heads, -1))
        logits = torch.einsum("bnhc,bphc->bhnp", q, k) * self.scale
        if hidden is not None:
            logits = logits.masked_fill(hidden.flatten(1)[:, None, None], float("-inf"))
        out = torch.einsum("bhnp,bphc->bnhc", logits.softmax(-1), v)
        return objects + self.o(out.flatten(2))
