import torch
import torch.nn as nn


class GridSA(nn.Module):
    """Sparse global attention of MaxViT.

    The map (B, C, H, W) is read on a G x G grid: the G*G pixels that lie H/G rows and
    W/G columns apart attend to each other.
    """

    def __init__(self, C, grid=4, head_dim=8):
        super().__init__()
        self.g, self.hd, self.nh = grid, head_dim, C // head_dim
        self.norm = nn.LayerNorm(C)
        self.to_qkv = nn.Linear(C, 3 * C, bias=False)
        self.proj = nn.Linear(C, C)
        self.table = nn.Parameter(torch.randn((2 * grid - 1) ** 2, self.nh) * 0.02)
        ij = torch.cartesian_prod(torch.arange(grid), torch.arange(grid))
        d = ij[:, None] - ij[None] + grid - 1
        self.register_buffer("idx", d[..., 0] * (2 * grid - 1) + d[..., 1], persistent=False)

    def forward(self, x):
        B, C, H, W = x.shape
        g = self.g
        h, w = H // g, W // g
        t = x.view(B, C, g, h, g, w).permute(0, 3, 5, 2, 4, 1).reshape(B * h * w, g * g, C)
        q, k, v = self.to_qkv(self.norm(t)).chunk(3, -1)
        heads = lambda z: z.view(-1, g * g, self.nh, self.hd).transpose(1, 2)
        q, k, v = heads(q), heads(k), heads(v)
        att = (q * self.hd ** -0.5) @ k.mT + self.table[self.idx].permute(2, 0, 1)
        y = att.softmax(-1) @ v
        y = self.proj(y.transpose(1, 2).reshape(-1, g * g, C)) + t
        return y.view(B, h, w, g, g, C).permute(0, 5, 3, 1, 4, 2).reshape(B, C, H, W)
