"""Self-attention layer of our face GAN, after SAGAN (Zhang et al. 2018)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Self_Attn(nn.Module):
    """Input and output (B, C, W, H). Each pixel j mixes h(x_i) of all pixels i with
    beta[j, i] = softmax over i of f(x_i) . g(x_j), without temperature as in the paper;
    the result times gamma is added to the input. gamma starts at 0.

    With return_map=True also gives beta as (B, W*H, W*H), first pixel axis j, second i.
    """

    def __init__(self, in_dim, reduction=8):
        super(Self_Attn, self).__init__()
        self.channel_in = in_dim
        self.f_conv = nn.Conv2d(in_dim, in_dim // reduction, kernel_size=1)
        self.g_conv = nn.Conv2d(in_dim, in_dim // reduction, kernel_size=1)
        self.h_conv = nn.Conv2d(in_dim, in_dim, kernel_size=1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x, return_map=False):
        B, C, W, H = x.size()
        f = self.f_conv(x).view(B, -1, W * H)                  # B x C' x N  (i)
        g = self.g_conv(x).view(B, -1, W * H)                  # B x C' x N  (j)
        h = self.h_conv(x).view(B, -1, W * H)                  # B x C x N   (i)

        s = torch.bmm(f.permute(0, 2, 1), g)                   # B x i x j
        beta = F.softmax(s, dim=1)                             # columns sum to one

        o = torch.bmm(h, beta).view(B, C, W, H)
        y = self.gamma * o + x
        if return_map:
            return y, beta.permute(0, 2, 1)
        return y


def spectral(m):
    """wrap the convolutions of a layer with spectral norm"""
    for name in ("f_conv", "g_conv", "h_conv"):
        setattr(m, name, nn.utils.parametrizations.spectral_norm(getattr(m, name)))
    return m
