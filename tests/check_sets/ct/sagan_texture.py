"""Self-attention layer of the fabric texture generator."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


def conv1(cin, cout):
    return spectral_norm(nn.Conv2d(cin, cout, kernel_size=1, bias=False))


class TextureAttention(nn.Module):
    """
    feat: (B, C, H, W) -> (B, C, H, W), plus the map (B, H*W, H*W).

    map[b, i, j] says how much place i takes from place j; each place's
    shares add up to one. Products are not scaled (as in SAGAN), the narrow
    key width of C // 4 keeps them small. The result enters through the learned `gamma`.
    """

    def __init__(self, C=16, gamma=0.5):
        super().__init__()
        self.f = conv1(C, C // 4)
        self.g = conv1(C, C // 4)
        self.h = conv1(C, C)
        self.gamma = nn.Parameter(torch.tensor(gamma))

    def forward(self, feat):
        B, C, H, W = feat.shape
        n = H * W
        asker = self.f(feat).view(B, -1, n).permute(0, 2, 1)      # (B, n, C/4)
        asked = self.g(feat).view(B, -1, n)                        # (B, C/4, n)
        energy = torch.bmm(asker, asked)                           # (B, n, n)
        share = torch.softmax(energy, dim=1)
        value = self.h(feat).view(B, C, n)
        out = torch.bmm(value, share.permute(0, 2, 1)).view(B, C, H, W)
        return feat + self.gamma * out, share
