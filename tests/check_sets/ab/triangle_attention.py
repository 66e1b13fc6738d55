import torch
import torch.nn as nn


class Transition(nn.Module):
    def __init__(self, c, n=2):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))

    def forward(self, z):
        return self.net(z)


class TriangleAttention(nn.Module):
    """Gated triangle self attention around the starting or the ending node.

    starting:  z[i, j] looks along its row at z[i, k], biased by the third edge (j, k)
    ending:    the same on the transposed pair matrix
    """

    def __init__(self, c_z=32, heads=4, c=8, mode="starting", chunk=None):
        super().__init__()
        assert mode in ("starting", "ending")
        self.mode, self.h, self.c, self.chunk = mode, heads, c, chunk
        self.ln = nn.LayerNorm(c_z)
        self.qkv = nn.Linear(c_z, 3 * heads * c, bias=False)
        self.bias = nn.Linear(c_z, heads, bias=False)
        self.gate = nn.Linear(c_z, heads * c)
        self.out = nn.Linear(heads * c, c_z)

    def _rows(self, q, k, v, bias, mask):
        # q k v [B, I, N, H, C]; bias [B, 1, H, N, N]; mask [B, I, N]
        s = torch.einsum("bijhc,bikhc->bihjk", q, k) * self.c ** -0.5 + bias
        if mask is not None:
            s = s + (mask[:, :, None, None, :] - 1.0) * 1e9
        return torch.einsum("bihjk,bikhc->bijhc", s.softmax(dim=-1), v)

    def forward(self, z, mask=None):
        """z [B, N, N, c_z]; mask [B, N, N], 1.0 for edges between existing residues"""
        if self.mode == "ending":
            z = z.transpose(1, 2)
            mask = None if mask is None else mask.transpose(1, 2)
        B, N = z.shape[:2]
        z = self.ln(z)
        q, k, v = self.qkv(z).view(B, N, N, 3, self.h, self.c).unbind(3)
        bias = self.bias(z).permute(0, 3, 1, 2)[:, None]
        step = self.chunk or N
        rows = []
        for i in range(0, N, step):
            sl = slice(i, i + step)
            rows.append(self._rows(q[:, sl], k[:, sl], v[:, sl], bias, None if mask is None else mask[:, sl]))
        y = torch.cat(rows, dim=1).flatten(3)
        y = self.out(torch.sigmoid(self.gate(z)) * y)
        return y.transpose(1, 2) if self.mode == "ending" else y


class PairBlock(nn.Module):
    def __init__(self, c_z=32):
        super().__init__()
        self.a = TriangleAttention(c_z, mode="starting")
        self.b = TriangleAttention(c_z, mode="ending")
        self.t = Transition(c_z)

    def forward(self, z, mask=None):
        z = z + self.a(z, mask)
        z = z + self.b(z, mask)
        return z + self.t(z)
