import math
import torch
import torch.nn as nn
import torch.nn.functional as F

# --- window helpers (NHWC) -------------------------------------------------

def to_windows(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(x, w, H, W):
    C = x.shape[-1]
    x = x.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def shift_regions(H, W, w, s):
    """[nW, w*w, w*w] bool, True where two pixels come from different sides of the roll."""
    ids = torch.zeros(1, H, W, 1)
    n = 0
    for hs in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for ws in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            ids[:, hs, ws] = n
            n += 1
    ids = to_windows(ids, w).squeeze(-1)
    return ids[:, None, :] != ids[:, :, None]


class CosineWindow(nn.Module):
    """Scaled cosine attention (Swin v2): cos(q, k) * exp(min(tau, ln 100)) + CPB.

    x: [num_windows*B, w*w, C] with the window index running fastest; apart: [num_windows, N, N], True = not
    to be attended.  The key projection has no bias, as in the original.
    """

    def __init__(self, dim, w, heads):
        super().__init__()
        self.h, self.w = heads, w
        self.tau = nn.Parameter(math.log(10.0) * torch.ones(heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)
        self.cpb = nn.Sequential(nn.Linear(2, 64), nn.ReLU(inplace=True), nn.Linear(64, heads, bias=False))
        r = torch.arange(-(w - 1), w, dtype=torch.float32)
        grid = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1) * 8 / (w - 1)
        grid = grid.sign() * torch.log2(grid.abs() + 1.0) / 3.0
        self.register_buffer("grid", grid.view(-1, 2))
        c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]) + (w - 1)
        self.register_buffer("index", rel[0] * (2 * w - 1) + rel[1])

    def forward(self, x, apart=None):
        Bn, N, C = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        q, k, v = F.linear(x, self.qkv.weight, bias).view(Bn, N, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        s = s * self.tau.clamp(max=math.log(100.0)).exp()
        table = 16 * torch.sigmoid(self.cpb(self.grid))
        s = s + table[self.index.flatten()].view(N, N, self.h).permute(2, 0, 1)
        if apart is not None:
            nW = apart.shape[0]
            s = s.view(Bn // nW, nW, self.h, N, N).masked_fill(apart[None, :, None], float("-inf"))
            s = s.view(-1, self.h, N, N)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(Bn, N, C)
        return self.proj(y)


class TerrainBlock(nn.Module):
    """post-norm block on DEM tiles; H and W must be multiples of w"""

    def __init__(self, dim=32, size=(8, 12), w=4, heads=4, shifted=True):
        super().__init__()
        self.size, self.w, self.s = size, w, w // 2 if shifted else 0
        self.attn = CosineWindow(dim, w, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))
        self.register_buffer("apart", shift_regions(*size, w, self.s) if self.s else None)

    def forward(self, x):
        H, W = self.size
        y = torch.roll(x, (-self.s, -self.s), (1, 2)) if self.s else x
        y = from_windows(self.attn(to_windows(y, self.w), self.apart), self.w, H, W)
        y = torch.roll(y, (self.s, self.s), (1, 2)) if self.s else y
        x = x + self.n1(y)
        return x + self.n2(self.mlp(x))
