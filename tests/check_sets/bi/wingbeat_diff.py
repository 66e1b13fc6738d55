# Mosquito wingbeat classifier. Optical sensor, 8 kHz, frames of 32 ms.
# Uses differential attention (Ye et al. 2024): two softmax maps are subtracted to
# cancel the common background (rain, traffic), see DiffAttn below.
import math

import torch
from torch import nn
import torch.nn.functional as F

SPECIES = ["aegypti", "albopictus", "gambiae", "arabiensis", "pipiens", "none"]


def lambda_init(layer):
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


class DiffAttn(nn.Module):
    """Bidirectional differential attention.

    Every head has two query/key pairs of size d and one value of size 2d:

        A = softmax(q1 k1'/sqrt d) - lam * softmax(q2 k2'/sqrt d)
        y = (1 - lam0) * RMSNorm(A v)

    Rows of A sum to 1 - lam, not to one, and entries may be negative.
    """

    def __init__(self, width, heads, layer):
        super().__init__()
        self.H, self.d = heads, width // heads // 2
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.lam0 = lambda_init(layer)
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(0.1 * torch.randn(self.d)) for _ in range(4))
        self.gn = nn.RMSNorm(2 * self.d, eps=1e-5)

    def lam(self):
        return (torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.lam0)

    def forward(self, x, n_frames=None):
        """x (B, T, width); n_frames (B,) true lengths."""
        B, T, W = x.shape
        q = self.q(x).view(B, T, self.H, 2, self.d)
        k = self.k(x).view(B, T, self.H, 2, self.d)
        v = self.v(x).view(B, T, self.H, 2 * self.d)
        s = torch.einsum("bihcd,bjhcd->bchij", q, k) * self.d ** -0.5
        if n_frames is not None:
            pad = torch.arange(T, device=x.device) >= n_frames[:, None]
            s = s.masked_fill(pad[:, None, None, None, :], float("-inf"))
        p = s.softmax(-1)
        a = p[:, 0] - self.lam() * p[:, 1]
        y = torch.einsum("bhij,bjhe->bihe", a, v)
        y = self.gn(y) * (1 - self.lam0)
        return self.o(y.reshape(B, T, W))


class WingbeatNet(nn.Module):
    def __init__(self, bins=129, width=64, heads=4, depth=3):
        super().__init__()
        self.inp = nn.Linear(bins, width)
        self.att = nn.ModuleList(DiffAttn(width, heads, i) for i in range(depth))
        self.nrm = nn.ModuleList(nn.RMSNorm(width) for _ in range(depth))
        self.out = nn.Linear(width, len(SPECIES))

    def forward(self, spec, n_frames):
        h = self.inp(torch.log1p(spec))
        for a, n in zip(self.att, self.nrm):
            h = h + a(n(h), n_frames)
        ok = (torch.arange(h.shape[1], device=h.device) < n_frames[:, None])[..., None]
        return self.out((h * ok).sum(1) / n_frames[:, None])


def frame(signal, size=256, hop=128):
    win = torch.hann_window(size)
    return torch.fft.rfft(signal.unfold(-1, size, hop) * win).abs()


if __name__ == "__main__":
    net = WingbeatNet()
    print(F.softmax(net(frame(torch.randn(2, 4096)), torch.tensor([31, 20])), -1))
