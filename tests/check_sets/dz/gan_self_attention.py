"""Self-attention layer for a GAN generator / discriminator.

x  (B, C, H, W).  With N = H*W pixels:

    query = f(x), key = g(x)     (B, C//8, N)
    value = h(x)                 (B, C, N)
    out[:, :, i] = sum_j  a[i, j] * value[:, :, j],     a[i, :] = softmax_j( query_i . key_j )

The logits aren't scaled.  Returns (gamma * out + x, a) with a of shape (B, N, N): for every pixel i
one distribution over the pixels j that it looks at.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def snconv1x1(cin, cout):
    return nn.utils.parametrizations.spectral_norm(nn.Conv2d(cin, cout, 1, bias=False))


class PixelAttn(nn.Module):
    def __init__(self, ch, gamma_init=0.0):
        super().__init__()
        inner = max(ch // 8, 1)
        self.f = snconv1x1(ch, inner)
        self.g = snconv1x1(ch, inner)
        self.h = snconv1x1(ch, ch)
        self.gamma = nn.Parameter(torch.tensor([gamma_init]))

    def forward(self, x):
        B, C, H, W = x.size()
        query = self.f(x).view(B, -1, H * W)
        key = self.g(x).view(B, -1, H * W)
        value = self.h(x).view(B, C, H * W)

        energy = torch.bmm(query.permute(0, 2, 1), key)
        a = F.softmax(energy, dim=1)
        out = torch.bmm(value, a.permute(0, 2, 1)).view(B, C, H, W)
        return self.gamma * out + x, a
