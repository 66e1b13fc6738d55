"""Generator block of the vocoder: self-attention over a spectrogram (SAGAN, 1805.08318).

Every time-frequency cell gathers from all others.  As in the paper the scores are plain
dot products of 1x1 convolutions (no scaling) and the weights of one cell sum to one over
the cells it reads.  The result is added with a learned factor gamma.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


def conv1x1(c_in, c_out, sn):
    conv = nn.Conv2d(c_in, c_out, kernel_size=1, bias=False)
    return spectral_norm(conv) if sn else conv


class SpectroSelfAttention(nn.Module):
    """ Self attention layer, input and output B x C x F x T """

    def __init__(self, channels, sn=False):
        super().__init__()
        self.query = conv1x1(channels, channels // 4, sn)
        self.key = conv1x1(channels, channels // 4, sn)
        self.value = conv1x1(channels, channels // 2, sn)
        self.back = conv1x1(channels // 2, channels, sn)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        B, C, nf, nt = x.shape
        q = self.query(x).flatten(2).permute(0, 2, 1)     # B x N x C'
        k = self.key(x).flatten(2)                        # B x C' x N
        v = self.value(x).flatten(2)                      # B x C'' x N

        energy = torch.bmm(q, k)                          # B x N x N
        attention = F.softmax(energy, dim=1)
        o = torch.bmm(v, attention.permute(0, 2, 1))      # B x C'' x N
        o = self.back(o.view(B, -1, nf, nt))
        return x + self.gamma * o


class VocoderBlock(nn.Module):
    def __init__(self, channels=16, gamma=0.5):
        super().__init__()
        self.res = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        self.attn = SpectroSelfAttention(channels)
        nn.init.constant_(self.attn.gamma, gamma)

    def forward(self, x):
        x = x + self.res(x)
        return self.attn(x)
