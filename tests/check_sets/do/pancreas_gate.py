"""Additive attention gate for skip connections (Attention U-Net, pancreas CT).

x : (B, Cx, H, W)       skip features of the encoder
g : (B, Cg, H/2, W/2)   gating signal from the coarser decoder level

    q   = psi( relu( Wx * x  +  Wg * g + b ) )        on the coarse grid
    att = sigmoid(q)                                   one coefficient per location, in (0, 1)
    out = W( x * upsample(att) )

The coefficients are sigmoids on purpose - they don't sum to one over the
image - because with a softmax the gates became far too sparse.
Returns (gated skip features (B, Cx, H, W), att at full size (B, 1, H, W)).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GridAttentionGate(nn.Module):
    def __init__(self, in_ch, gate_ch, inter_ch=None):
        super().__init__()
        inter_ch = inter_ch or max(in_ch // 2, 1)
        self.theta = nn.Conv2d(in_ch, inter_ch, kernel_size=2, stride=2, bias=False)
        self.phi = nn.Conv2d(gate_ch, inter_ch, kernel_size=1)
        self.psi = nn.Conv2d(inter_ch, 1, kernel_size=1)
        self.W = nn.Conv2d(in_ch, in_ch, kernel_size=1)

    def forward(self, x, g):
        theta_x = self.theta(x)
        phi_g = self.phi(g)
        f = F.relu(theta_x + phi_g)
        att = torch.sigmoid(self.psi(f))
        att = F.interpolate(att, size=x.shape[2:], mode="bilinear", align_corners=False)
        return self.W(att * x), att


class UpBlock(nn.Module):
    """decoder level: gate the skip, upsample, concatenate, convolve."""

    def __init__(self, skip_ch, deep_ch, out_ch):
        super().__init__()
        self.gate = GridAttentionGate(skip_ch, deep_ch)
        self.up = nn.ConvTranspose2d(deep_ch, out_ch, 2, stride=2)
        self.conv = nn.Sequential(nn.Conv2d(out_ch + skip_ch, out_ch, 3, padding=1), nn.ReLU())

    def forward(self, skip, deep):
        s, _ = self.gate(skip, deep)
        return self.conv(torch.cat([self.up(deep), s], dim=1))
