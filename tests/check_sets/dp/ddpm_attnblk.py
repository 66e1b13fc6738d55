"""AttnBlock of a DDPM UNet at the 16x16 level.

x (b, c, h, w) -> (b, c, h, w).  Each of the h*w pixels (after GroupNorm) asks
with q, is answered by k and v of all pixels: for every pixel i

    out_i = x_i + P( sum_j a_ij v_j ),  a_i. = softmax over j of q_i . k_j / sqrt(c)

One head of width c.  ``AttnBlock(in_channels, groups)``.
"""
import torch
import torch.nn as nn


def nonlinearity(x):
    return x * torch.sigmoid(x)


class AttnBlock(nn.Module):
    def __init__(self, in_channels, groups=8):
        super().__init__()
        self.norm = nn.GroupNorm(groups, in_channels, eps=1e-6, affine=True)
        self.q = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.k = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.v = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.proj_out = nn.Conv2d(in_channels, in_channels, kernel_size=1)

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)

        # compute attention
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)   # b,hw,c
        k = k.reshape(b, c, h * w)                    # b,c,hw
        w_ = torch.bmm(q, k)                          # b,hw,hw
        w_ = w_ * (int(c) ** (-1.0))
        w_ = torch.nn.functional.softmax(w_, dim=1)

        # attend to values
        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)                      # b,hw of k,hw of q
        h_ = torch.bmm(v, w_)
        h_ = h_.reshape(b, c, h, w)
        return x + self.proj_out(h_)
