"""Differential attention for hydrophone event detection.

Two softmax maps are subtracted so that common-mode noise (ship engines) drops
out.  Reproduction of "Differential Transformer", section 2, causal version.

  head h: q1,q2,k1,k2 of width d, v of width 2d
  out = ( softmax(q1 k1^T/sqrt(d)) - lam * softmax(q2 k2^T/sqrt(d)) ) v
  out = RMSNorm_h(out) * (1 - lam_init)
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def lambda_init(depth):
    # depth counted from 0
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffAttn(nn.Module):
    def __init__(self, width, n_heads, depth=0):
        super().__init__()
        assert width % (2 * n_heads) == 0
        self.n_heads = n_heads
        self.d = width // n_heads // 2
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, width, bias=False)
        self.wv = nn.Linear(width, width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.lam_init = lambda_init(depth)
        for name in ("lq1", "lk1", "lq2", "lk2"):
            self.register_parameter(name, nn.Parameter(torch.randn(self.d) * 0.1))
        self.head_gain = nn.Parameter(torch.ones(2 * self.d))

    def lam(self):
        a = torch.exp((self.lq1 * self.lk1).sum())
        b = torch.exp((self.lq2 * self.lk2).sum())
        return a - b + self.lam_init

    def maps(self, x):
        """(B, H, 2, T, T): the two causal maps before subtraction"""
        B, T, _ = x.shape
        # the halves of a head lie side by side: head h = [q1 | q2]
        q = self.wq(x).view(B, T, self.n_heads, 2, self.d).permute(0, 2, 3, 1, 4)
        k = self.wk(x).view(B, T, self.n_heads, 2, self.d).permute(0, 2, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        ahead = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        return F.softmax(s.masked_fill(ahead, -math.inf), dim=-1)

    def forward(self, x):
        B, T, C = x.shape
        a = self.maps(x)
        a = a[:, :, 0] - self.lam() * a[:, :, 1]      # rows sum to 1 - lam
        v = self.wv(x).view(B, T, self.n_heads, 2 * self.d).transpose(1, 2)
        o = a @ v
        o = F.rms_norm(o, (2 * self.d,), self.head_gain, eps=1e-5)
        o = o * (1.0 - self.lam_init)
        return self.wo(o.transpose(1, 2).reshape(B, T, C))


class SwiGLU(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.a, self.b, self.o = nn.Linear(c, h), nn.Linear(c, h), nn.Linear(h, c)

    def forward(self, x):
        return self.o(F.silu(self.a(x)) * self.b(x))


class EventDetector(nn.Module):
    """log-mel frames (B, T, M) -> per-frame logits of n whale call types"""

    def __init__(self, mels=40, width=64, n_heads=4, layers=3, calls=7):
        super().__init__()
        self.stem = nn.Linear(mels, width)
        self.attn = nn.ModuleList(DiffAttn(width, n_heads, i) for i in range(layers))
        self.ff = nn.ModuleList(SwiGLU(width, 2 * width) for _ in range(layers))
        self.n1 = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.n2 = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.out = nn.Linear(width, calls)

    def forward(self, mel):
        x = self.stem(mel)
        for att, ff, n1, n2 in zip(self.attn, self.ff, self.n1, self.n2):
            x = x + att(n1(x))
            x = x + ff(n2(x))
        return self.out(x)


if __name__ == "__main__":
    print(EventDetector()(torch.randn(2, 30, 40)).shape)
