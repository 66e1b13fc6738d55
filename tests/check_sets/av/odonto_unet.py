"""Bottleneck attention of the dental CT segmentation net (volumes -> tokens)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VoxelAttention(nn.Module):
    """tokens [B, N, C]; outside [B, N] bool, True for voxels outside of the field of
    view. Nobody attends to outside voxels (as keys). At least one voxel is inside."""

    def __init__(self, channels, heads=4, drop=0.0):
        super().__init__()
        self.heads = heads
        self.head_size = channels // heads
        self.to_qkv = nn.Linear(channels, channels * 3, bias=False)
        self.proj = nn.Linear(channels, channels)
        self.drop = nn.Dropout(drop)
        # scaled dot product
        self.scale = heads ** -0.5

    def forward(self, tokens, outside=None):
        b, n, c = tokens.shape
        q, k, v = self.to_qkv(tokens).chunk(3, dim=-1)
        q, k, v = (z.reshape(b, n, self.heads, self.head_size).transpose(1, 2) for z in (q, k, v))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if outside is not None:
            dots = dots.masked_fill(outside[:, None, :, None], torch.finfo(dots.dtype).min)
        probs = self.drop(dots.softmax(dim=-1))
        out = torch.einsum("bhij,bhjd->bhid", probs, v).transpose(1, 2).reshape(b, n, c)
        return self.proj(out)


class Conv(nn.Sequential):
    def __init__(self, i, o, stride=1):
        super().__init__(nn.Conv3d(i, o, 3, stride, 1), nn.GroupNorm(4, o), nn.SiLU())


class OdontoUNet(nn.Module):
    def __init__(self, classes=4, w=8):
        super().__init__()
        self.d1, self.d2 = Conv(1, w), Conv(w, 2 * w, 2)
        self.d3 = Conv(2 * w, 4 * w, 2)
        self.norm = nn.LayerNorm(4 * w)
        self.att = VoxelAttention(4 * w)
        self.u2, self.u1 = Conv(6 * w, 2 * w), Conv(3 * w, w)
        self.out = nn.Conv3d(w, classes, 1)

    def forward(self, vol, fov=None):
        a = self.d1(vol)
        b = self.d2(a)
        c = self.d3(b)
        tok = c.flatten(2).transpose(1, 2)
        outside = None
        if fov is not None:
            outside = F.adaptive_max_pool3d(fov.float(), c.shape[2:]).flatten(1) == 0
        tok = tok + self.att(self.norm(tok), outside)
        c = tok.transpose(1, 2).reshape(c.shape)
        b = self.u2(torch.cat([F.interpolate(c, size=b.shape[2:]), b], 1))
        return self.out(self.u1(torch.cat([F.interpolate(b, size=a.shape[2:]), a], 1)))


def dice(pred, target, eps=1e-6):
    inter = (pred * target).flatten(2).sum(-1)
    return (2 * inter + eps) / (pred.flatten(2).sum(-1) + target.flatten(2).sum(-1) + eps)
