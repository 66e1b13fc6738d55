"""Bottleneck attention of a precipitation-downscaling U-Net.

x (B, C, H, W) -> (B, C, H, W), residual.  All H*W grid cells look at all cells:
    out_i = sum_j A_ij v_j,   A_i. = softmax over j of q_i . k_j / sqrt(C)
single head.  `temb` (B, E), the embedding of the lead time, shifts the input.
"""
import torch
import torch.nn as nn


class AttnBlock(nn.Module):
    def __init__(self, channels, temb_dim, groups=4):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-6)
        self.temb = nn.Linear(temb_dim, channels)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, temb):
        h_ = self.norm(x) + self.temb(temb)[:, :, None, None]
        q, k, v = self.q(h_), self.k(h_), self.v(h_)

        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)      # b, hw, c
        k = k.reshape(b, c, h * w)                       # b, c, hw
        w_ = torch.bmm(q, k) * (int(c) ** (-0.5))        # w_[b, i, j] = sum_c q[b, i, c] k[b, c, j]
        w_ = torch.nn.functional.softmax(w_, dim=1)

        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)                         # b, j, i
        h_ = torch.bmm(v, w_)                            # h_[b, c, i] = sum_j v[b, c, j] w_[b, j, i]
        h_ = h_.reshape(b, c, h, w)
        return x + self.proj_out(h_)
