import torch.nn as nn
import torch.nn.functional as F
import torch


class MDTA(nn.Module):
    """Multi-Dconv head transposed attention (Restormer, Zamir et al. 2022) on feature maps (B, C, H, W).

    Attention is across channels: the map of a head is (C/heads) x (C/heads), and its tokens are channels whose
    features are the H*W pixels.  Queries and keys have length one, and a learned temperature stands for the scale.
    """

    def __init__(self, channels, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(1, num_heads, 1, 1))
        self.qkv = nn.Conv2d(channels, channels * 3, kernel_size=1, bias=False)
        self.qkv_conv = nn.Conv2d(channels * 3, channels * 3, 3, padding=1, groups=channels * 3, bias=False)
        self.project_out = nn.Conv2d(channels, channels, kernel_size=1, bias=False)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv_conv(self.qkv(x)).chunk(3, dim=1)

        q = q.reshape(b, self.num_heads, -1, h * w)
        k = k.reshape(b, self.num_heads, -1, h * w)
        v = v.reshape(b, self.num_heads, -1, h * w)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)

        attn = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * self.temperature, dim=-1)
        return self.project_out(torch.matmul(attn, v).reshape(b, c, h, w))
