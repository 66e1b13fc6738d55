# Denoising diffusion on 64x64 celeb crops. Mid-block of the UNet.
import torch
import torch.nn as nn
import torch.nn.functional as F


def nonlinearity(x):
    return x * torch.sigmoid(x)


def Normalize(in_channels, num_groups=4):
    return nn.GroupNorm(num_groups=num_groups, num_channels=in_channels, eps=1e-6, affine=True)


class ResnetBlock(nn.Module):
    def __init__(self, in_channels, temb_channels=0):
        super().__init__()
        self.norm1 = Normalize(in_channels)
        self.conv1 = nn.Conv2d(in_channels, in_channels, 3, padding=1)
        if temb_channels > 0:
            self.temb_proj = nn.Linear(temb_channels, in_channels)
        self.norm2 = Normalize(in_channels)
        self.conv2 = nn.Conv2d(in_channels, in_channels, 3, padding=1)

    def forward(self, x, temb=None):
        h = self.conv1(nonlinearity(self.norm1(x)))
        if temb is not None:
            h = h + self.temb_proj(nonlinearity(temb))[:, :, None, None]
        h = self.conv2(nonlinearity(self.norm2(h)))
        return x + h


class AttnBlock(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.in_channels = in_channels

        self.norm = Normalize(in_channels)
        self.q = nn.Conv2d(in_channels, in_channels, kernel_size=1, stride=1, padding=0)
        self.k = nn.Conv2d(in_channels, in_channels, kernel_size=1, stride=1, padding=0)
        self.v = nn.Conv2d(in_channels, in_channels, kernel_size=1, stride=1, padding=0)
        self.proj_out = nn.Conv2d(in_channels, in_channels, kernel_size=1, stride=1, padding=0)

    def forward(self, x):
        h_ = x
        h_ = self.norm(h_)
        q = self.q(h_)
        k = self.k(h_)
        v = self.v(h_)

        # compute attention
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w)
        q = q.permute(0, 2, 1)            # b,hw,c
        k = k.reshape(b, c, h * w)        # b,c,hw
        w_ = torch.bmm(q, k)              # b,hw,hw    w[b,i,j]=sum_c q[b,i,c]k[b,c,j]
        w_ = w_ * (int(c) ** (-0.5))
        w_ = F.softmax(w_, dim=1)

        # attend to values
        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)          # b,hw,hw (first hw of k, second of q)
        h_ = torch.bmm(v, w_)             # b,c,hw (hw of q)
        h_ = h_.reshape(b, c, h, w)

        h_ = self.proj_out(h_)
        return x + h_


class MidBlock(nn.Module):
    """res - attn - res at the lowest resolution"""

    def __init__(self, in_channels):
        super().__init__()
        self.block_1 = ResnetBlock(in_channels)
        self.attn_1 = AttnBlock(in_channels)
        self.block_2 = ResnetBlock(in_channels)

    def forward(self, x):
        x = self.block_1(x)
        x = self.attn_1(x)
        return self.block_2(x)
