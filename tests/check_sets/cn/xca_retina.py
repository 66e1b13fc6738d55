"""Cross-covariance attention (XCiT) on retina patches.

Here attention runs between CHANNELS of one head, not between patches: the map is
[d, d] and its cost grows linearly with the number of patches.  q and k are
L2-normalised along the patches, the logits are multiplied by a learned
temperature per head.  Softmax runs over the key channels (last axis).
"""
import torch
from torch import nn
import torch.nn.functional as F


class XCA(nn.Module):
    def __init__(self, dim=48, num_heads=4, qkv_bias=True, attn_drop=0.0, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        """x: [B, N, C] patches -> [B, N, C]"""
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1).unbind(0)      # [B, h, d, N]
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature  # [B, h, d, d]
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class RetinaStage(nn.Module):
    """Image [B, 3, H, W] (H, W multiples of `patch`) -> grade logits [B, classes]"""

    def __init__(self, dim=48, patch=8, depth=2, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.xca = nn.ModuleList(XCA(dim) for _ in range(depth))
        # local mixing between patches, as XCA itself does not compare them
        self.local = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1, groups=dim) for _ in range(depth))
        self.fc = nn.Linear(dim, classes)

    def forward(self, img):
        f = self.stem(img)
        B, C, h, w = f.shape
        x = f.flatten(2).transpose(1, 2)
        for n, a, l in zip(self.norms, self.xca, self.local):
            x = x + a(n(x))
            x = x + l(x.transpose(1, 2).reshape(B, C, h, w)).flatten(2).transpose(1, 2)
        return self.fc(x.mean(1))
