import torch
from torch import nn
import torch.nn.functional as F


class XCA(nn.Module):
    """Cross-covariance attention (El-Nouby et al. 2021) for ultrasound frames.

    Attention is between *channels*, not between pixels: within a head the d x d matrix
    of normalised channels is multiplied by a temperature, softmax over the last axis
    (the key channels), and mixes the channels of v. Cost is linear in the pixels.
    """

    def __init__(self, dim=16, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Conv2d(dim, 3 * dim, 1, bias=False)
        self.dw = nn.Conv2d(3 * dim, 3 * dim, 3, padding=1, groups=3 * dim, bias=False)
        self.project_out = nn.Conv2d(dim, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.dw(self.qkv(x)).chunk(3, dim=1)
        q = q.reshape(b, self.num_heads, c // self.num_heads, h * w)
        k = k.reshape(b, self.num_heads, c // self.num_heads, h * w)
        v = v.reshape(b, self.num_heads, c // self.num_heads, h * w)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        a = (q @ k.transpose(-2, -1)) * self.temperature
        out = a.softmax(dim=-1) @ v
        return self.project_out(out.reshape(b, c, h, w))


class UltrasoundDenoiser(nn.Module):
    """Predicts the speckle and subtracts it; (B, 1, H, W)."""

    def __init__(self, dim=16, depth=2):
        super().__init__()
        self.head = nn.Conv2d(1, dim, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(1, dim) for _ in range(depth))
        self.mix = nn.ModuleList(XCA(dim) for _ in range(depth))
        self.tail = nn.Conv2d(dim, 1, 3, padding=1)

    def forward(self, img):
        f = self.head(img)
        for n, m in zip(self.norms, self.mix):
            f = f + m(n(f))
        return img - self.tail(f)
