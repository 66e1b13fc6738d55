import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionConv(nn.Module):
    """Stand-alone self-attention for vision models: every pixel attends to the kernel_size x kernel_size pixels around it.

    Outside the map the features are zero and still take part (only the positional term is left of their keys);
    the paper does not scale the logits.  x (N, in_channels, H, W) -> (N, out_channels, H, W)
    """

    def __init__(self, in_channels, out_channels, kernel_size=3, groups=2):
        super().__init__()
        self.out_channels, self.kernel_size, self.groups = out_channels, kernel_size, groups
        self.rel = nn.Parameter(torch.randn(out_channels, kernel_size ** 2))
        self.key_conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.query_conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)
        self.value_conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)

    def forward(self, x):
        n, _, h, w = x.shape
        kk, g, c = self.kernel_size ** 2, self.groups, self.out_channels // self.groups
        q_out = self.query_conv(x).view(n, g, c, 1, h * w)
        k_out = F.unfold(self.key_conv(x), self.kernel_size, padding=self.kernel_size // 2).view(n, g, c, kk, h * w)
        v_out = F.unfold(self.value_conv(x), self.kernel_size, padding=self.kernel_size // 2).view(n, g, c, kk, h * w)
        k_out = k_out + self.rel.view(1, g, c, kk, 1)
        out = (q_out * k_out).sum(2, keepdim=True)
        out = F.softmax(out, dim=3)
        return (out * v_out).sum(3).reshape(n, self.out_channels, h, w)
