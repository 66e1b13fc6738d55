"""Spatial self-attention of the autoencoder (latent diffusion, `AttnBlock`).

x (B, C, H, W) -> (B, C, H, W).  Each pixel is updated with a convex combination (weights
non-negative, summing to 1) of the values of all H*W pixels:

    y_i = x_i + proj( sum_j softmax_j( q_i . k_j / sqrt(C) ) v_j )

Single head, 1x1 convolutions as projections, GroupNorm before.
"""
import torch
import torch.nn as nn


def Normalize(channels, groups=8):
    return nn.GroupNorm(groups, channels, eps=1e-6, affine=True)


class AttnBlock(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.norm = Normalize(in_channels)
        self.q = nn.Conv2d(in_channels, in_channels, 1)
        self.k = nn.Conv2d(in_channels, in_channels, 1)
        self.v = nn.Conv2d(in_channels, in_channels, 1)
        self.proj_out = nn.Conv2d(in_channels, in_channels, 1)

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)

        # compute attention
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)      # b,hw,c
        k = k.reshape(b, c, h * w)                       # b,c,hw
        w_ = torch.bmm(q, k)                             # b,hw,hw    w[b,i,j]=sum_c q[b,i,c]k[b,c,j]
        w_ = w_ * int(c) ** -0.5
        w_ = torch.softmax(w_, dim=1)

        # attend to values
        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)                         # b,hw,hw (first hw of k, second of q)
        h_ = torch.bmm(v, w_)                            # b,c,hw  (hw of q)
        h_ = h_.reshape(b, c, h, w)
        return x + self.proj_out(h_)
