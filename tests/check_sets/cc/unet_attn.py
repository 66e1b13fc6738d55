# Spatial self-attention for the low-resolution stages of a diffusion U-Net.
"""Attention block (single head, channels first) and the ResNet block next to it."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def Normalize(c, groups=4):
    return nn.GroupNorm(num_groups=groups, num_channels=c, eps=1e-6, affine=True)


class ResnetBlock(nn.Module):
    def __init__(self, c_in, c_out, t_dim):
        super().__init__()
        self.norm1 = Normalize(c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.temb = nn.Linear(t_dim, c_out)
        self.norm2 = Normalize(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.temb(F.silu(t))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return self.skip(x) + h


class AttnBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = Normalize(channels)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)   # b,hw,c
        k = k.reshape(b, c, h * w)                    # b,c,hw
        w_ = torch.bmm(q, k)                          # w_[b,i,j] = sum_c q[b,i,c] k[b,c,j]
        w_ = w_ * (int(c) ** (-0.5))
        w_ = F.softmax(w_, dim=2)

        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)                      # first hw of k, second of q
        h_ = torch.bmm(v, w_)                         # h_[b,c,j] = sum_i v[b,c,i] w_[b,i,j]
        h_ = h_.reshape(b, c, h, w)
        return x + self.proj_out(h_)


class MidStage(nn.Module):
    def __init__(self, channels=16, t_dim=8):
        super().__init__()
        self.block_1 = ResnetBlock(channels, channels, t_dim)
        self.attn_1 = AttnBlock(channels)
        self.block_2 = ResnetBlock(channels, channels, t_dim)

    def forward(self, x, t):
        return self.block_2(self.attn_1(self.block_1(x, t)), t)
