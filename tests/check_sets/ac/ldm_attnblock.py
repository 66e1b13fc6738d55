"""Mid block of the autoencoder: ResnetBlock -> AttnBlock -> ResnetBlock, all on (B, C, H, W)."""
import torch
import torch.nn as nn


def Normalize(c, groups=8):
    return nn.GroupNorm(num_groups=groups, num_channels=c, eps=1e-6, affine=True)


def swish(x):
    return x * torch.sigmoid(x)


class ResnetBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1 = Normalize(c)
        self.conv1 = nn.Conv2d(c, c, 3, padding=1)
        self.norm2 = Normalize(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        h = self.conv1(swish(self.norm1(x)))
        h = self.conv2(swish(self.norm2(h)))
        return x + h


class AttnBlock(nn.Module):
    """Single head self-attention: every pixel looks at every other pixel."""

    def __init__(self, in_channels):
        super().__init__()
        self.in_channels = in_channels
        self.norm = Normalize(in_channels)
        self.q = nn.Conv2d(in_channels, in_channels, 1)
        self.k = nn.Conv2d(in_channels, in_channels, 1)
        self.v = nn.Conv2d(in_channels, in_channels, 1)
        self.proj_out = nn.Conv2d(in_channels, in_channels, 1)

    def forward(self, x):
        h_ = self.norm(x)
        q = self.q(h_)
        k = self.k(h_)
        v = self.v(h_)

        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w)
        q = q.permute(0, 2, 1)          # b, hw, c
        k = k.reshape(b, c, h * w)      # b, c, hw
        w_ = torch.bmm(q, k)            # b, hw, hw    w[b,i,j] = sum_c q[b,i,c] k[b,c,j]
        w_ = w_ * (int(c) ** (-0.5))
        w_ = torch.nn.functional.softmax(w_, dim=1)

        # attend to values
        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)        # b, hw, hw (first hw of k, second of q)
        h_ = torch.bmm(v, w_)           # b, c, hw (hw of q)   h_[b,c,j] = sum_i v[b,c,i] w_[b,i,j]
        h_ = h_.reshape(b, c, h, w)

        return x + self.proj_out(h_)


class MidBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.block_1 = ResnetBlock(channels)
        self.attn_1 = AttnBlock(channels)
        self.block_2 = ResnetBlock(channels)

    def forward(self, x):
        return self.block_2(self.attn_1(self.block_1(x)))
