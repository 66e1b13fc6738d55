import torch
import torch.nn as nn


class AxialMix(nn.Module):
    """Axial block for ERA5 tiles: first along longitude, then along latitude.

    x: (B, C, H, W) -> (B, C, H, W), `heads` heads of C // heads channels each,
    the heads' outputs are concatenated along the channels.
    """

    def __init__(self, C=32, heads=4):
        super().__init__()
        self.heads = heads
        self.lon = nn.ModuleDict({"qkv": nn.Linear(C, 3 * C), "out": nn.Linear(C, C)})
        self.lat = nn.ModuleDict({"qkv": nn.Linear(C, 3 * C), "out": nn.Linear(C, C)})
        self.norms = nn.ModuleList([nn.LayerNorm(C), nn.LayerNorm(C)])

    def line(self, part, t):
        # t: (lines, n, C)
        m, n, C = t.shape
        d = C // self.heads
        q, k, v = part["qkv"](t).chunk(3, dim=-1)
        q = q.view(m, n, self.heads, d).transpose(1, 2)
        k = k.view(m, n, self.heads, d).transpose(1, 2)
        v = v.view(m, n, self.heads, d).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-1, -2) / d ** 0.5, dim=-1)
        y = torch.matmul(w, v)
        return part["out"](y.reshape(m, n, C))

    def forward(self, x):
        B, C, H, W = x.shape
        t = x.permute(0, 2, 3, 1)                                  # B H W C
        t = t + self.line(self.lon, self.norms[0](t).reshape(B * H, W, C)).view(B, H, W, C)
        t = t.transpose(1, 2)                                      # B W H C
        t = t + self.line(self.lat, self.norms[1](t).reshape(B * W, H, C)).view(B, W, H, C)
        return t.permute(0, 3, 2, 1).contiguous()
