"""Human pose lifting (2D -> 3D) with relative time biases.

bias table: [heads, 2 * reach + 1].  Entry reach + (j - i) belongs to query frame i and key frame j,
offsets beyond +-reach share the outermost entries; tables come from the TF training code.
"""
import torch
from torch import nn


class RelTimeAttention(nn.Module):
    def __init__(self, dim, heads, reach=8):
        super().__init__()
        self.heads, self.reach = heads, reach
        self.q_lin = nn.Linear(dim, dim)
        self.kv_lin = nn.Linear(dim, 2 * dim)
        self.o_lin = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn(heads, 2 * reach + 1) * 0.5)

    def _bias(self, n, device):
        t = torch.arange(n, device=device)
        off = (t[:, None] - t[None, :]).clamp(-self.reach, self.reach)
        return self.table[:, off + self.reach]

    def forward(self, x, dropped=None):
        """x [B, T, dim]; dropped bool [B, T], True for frames the camera lost."""
        b, n, dim = x.shape
        hd = dim // self.heads
        q = self.q_lin(x).view(b, n, self.heads, hd).transpose(1, 2)
        k, v = self.kv_lin(x).view(b, n, 2, self.heads, hd).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-2, -1) * hd ** -0.5 + self._bias(n, x.device)
        if dropped is not None:
            s = s.masked_fill(dropped[:, None, None, :], torch.finfo(s.dtype).min)
        y = s.softmax(-1) @ v
        return self.o_lin(y.transpose(1, 2).reshape(b, n, dim))


class Lifter(nn.Module):
    def __init__(self, joints=17, dim=48, heads=4, depth=2):
        super().__init__()
        self.inp = nn.Linear(2 * joints, dim)
        self.att = nn.ModuleList([RelTimeAttention(dim, heads) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.out = nn.Linear(dim, 3 * joints)
        self.joints = joints

    def forward(self, kp, dropped=None):
        b, n = kp.shape[:2]
        x = self.inp(kp.reshape(b, n, -1))
        for a, l in zip(self.att, self.ln):
            x = x + a(l(x), dropped)
        return self.out(x).view(b, n, self.joints, 3)


def mpjpe(pred, gt):
    pred = pred - pred[:, :, :1]
    gt = gt - gt[:, :, :1]
    return (pred - gt).norm(dim=-1).mean()
