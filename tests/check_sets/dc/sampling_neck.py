import torch
from torch import nn
import torch.nn.functional as F


class SamplingNeck(nn.Module):
    """Every pixel looks at `points` learned places per head around itself.

    feat: (B, C, H, W) -> (B, C, H, W).  Offsets are predicted in pixels; the weights of the
    places of a head sum to one.  Places outside the map read zeros.
    """

    def __init__(self, C, heads=4, points=4):
        super().__init__()
        self.heads, self.points = heads, points
        self.off = nn.Conv2d(C, heads * points * 2, 1)
        self.wgt = nn.Conv2d(C, heads * points, 1)
        self.val = nn.Conv2d(C, C, 1)
        self.out = nn.Conv2d(C, C, 1)
        nn.init.normal_(self.off.weight, std=0.05)

    def forward(self, feat):
        B, C, H, W = feat.shape
        h, p = self.heads, self.points
        v = self.val(feat).reshape(B * h, C // h, H, W)
        off = self.off(feat).reshape(B * h, p, 2, H, W).permute(0, 3, 4, 1, 2)
        w = self.wgt(feat).reshape(B * h, p, H, W).softmax(dim=1)

        ys, xs = torch.meshgrid(
            torch.arange(H, device=feat.device), torch.arange(W, device=feat.device), indexing="ij"
        )
        centre = torch.stack([xs, ys], -1).to(feat.dtype)[None, :, :, None, :]
        size = feat.new_tensor([W, H])
        grid = (2 * (centre + off) + 1) / size - 1                # B*h, H, W, p, (x, y)

        seen = F.grid_sample(
            v, grid.reshape(B * h, H, W * p, 2), mode="bilinear", padding_mode="zeros", align_corners=False
        ).reshape(B * h, C // h, H, W, p)
        y = (seen * w.permute(0, 2, 3, 1).unsqueeze(1)).sum(-1)
        return self.out(y.reshape(B, C, H, W))
