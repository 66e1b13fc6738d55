"""
Little DDPM for 64x64 sneaker pictures.  Middle part of the U-Net:
ResBlock -> AttnBlock -> ResBlock.

Based on the TF code of Ho et al., rewritten in PyTorch by me.
"""
import math

import torch
import torch.nn as nn


def get_timestep_embedding(timesteps, embedding_dim):
    assert len(timesteps.shape) == 1
    half_dim = embedding_dim // 2
    emb = math.log(10000) / (half_dim - 1)
    emb = torch.exp(torch.arange(half_dim, dtype=torch.float32) * -emb)
    emb = emb.to(device=timesteps.device)
    emb = timesteps.float()[:, None] * emb[None, :]
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=1)
    if embedding_dim % 2 == 1:
        emb = torch.nn.functional.pad(emb, (0, 1, 0, 0))
    return emb


def nonlinearity(x):
    # swish
    return x * torch.sigmoid(x)


def Normalize(in_channels):
    return torch.nn.GroupNorm(num_groups=8, num_channels=in_channels, eps=1e-6, affine=True)


class ResnetBlock(nn.Module):
    def __init__(self, *, in_channels, temb_channels, dropout=0.0):
        super().__init__()
        self.norm1 = Normalize(in_channels)
        self.conv1 = nn.Conv2d(in_channels, in_channels, kernel_size=3, stride=1, padding=1)
        self.temb_proj = nn.Linear(temb_channels, in_channels)
        self.norm2 = Normalize(in_channels)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(in_channels, in_channels, kernel_size=3, stride=1, padding=1)

    def forward(self, x, temb):
        h = self.conv1(nonlinearity(self.norm1(x)))
        h = h + self.temb_proj(nonlinearity(temb))[:, :, None, None]
        h = self.conv2(self.dropout(nonlinearity(self.norm2(h))))
        return x + h


class AttnBlock(nn.Module):
    """Every pixel attends to all pixels of the same picture (one head)."""

    def __init__(self, in_channels):
        super().__init__()
        self.in_channels = in_channels
        self.norm = Normalize(in_channels)
        self.q = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.k = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.v = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.proj_out = nn.Conv2d(in_channels, in_channels, kernel_size=1)

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)

        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)   # b,hw,c
        k = k.reshape(b, c, h * w)                    # b,c,hw
        w_ = torch.bmm(q, k)                          # w[b,i,j] = sum_c q[b,i,c] k[b,c,j]
        w_ = w_ * (int(c) ** (-0.5))
        w_ = torch.nn.functional.softmax(w_, dim=1)

        # attend to values
        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)                      # b,hw,hw (first hw of k, second of q)
        h_ = torch.bmm(v, w_)                         # h[b,c,j] = sum_i v[b,c,i] w[b,i,j]
        h_ = h_.reshape(b, c, h, w)
        return x + self.proj_out(h_)


class Middle(nn.Module):
    def __init__(self, ch, temb_ch):
        super().__init__()
        self.temb_ch = temb_ch
        self.block_1 = ResnetBlock(in_channels=ch, temb_channels=temb_ch)
        self.attn_1 = AttnBlock(ch)
        self.block_2 = ResnetBlock(in_channels=ch, temb_channels=temb_ch)

    def forward(self, x, t):
        temb = get_timestep_embedding(t, self.temb_ch)
        return self.block_2(self.attn_1(self.block_1(x, temb)), temb)


if __name__ == '__main__':
    net = Middle(32, 16)
    print(net(torch.randn(2, 32, 8, 8), torch.tensor([3, 700])).shape)
