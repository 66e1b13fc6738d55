"""CaiT for the plant pathology competition.  Talking heads in the patch layers, then
class-attention layers in which only the class token asks.  (Touvron et al. 2021)"""
import torch
from torch import nn


class TalkingHeads(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.out = h, nn.Linear(d, d * 3), nn.Linear(d, d)
        self.mix_before = nn.Linear(h, h)
        self.mix_after = nn.Linear(h, h)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = q @ k.mT * (d // self.h) ** -0.5
        a = self.mix_before(a.permute(0, 2, 3, 1)).softmax(dim=2)     # b, i, j, h : over j
        a = self.mix_after(a).permute(0, 3, 1, 2)
        return self.out((a @ v).transpose(1, 2).reshape(b, n, d))


class ClassAttention(nn.Module):
    """query: the class token (row 0); keys and values: class token and all patches"""

    def __init__(self, d, h):
        super().__init__()
        self.h, self.dh = h, d // h
        self.q, self.k, self.v, self.out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, cls, patches):
        u = torch.cat([cls, patches], dim=1)
        b, n, d = u.shape
        q = self.q(u[:, 0]).view(b, self.h, self.dh)
        k = self.k(u).view(b, n, self.h, self.dh)
        v = self.v(u).view(b, n, self.h, self.dh)
        w = (q[:, None] * k).sum(-1) / self.dh ** 0.5                 # b, n, h
        w = w.softmax(dim=1)
        return self.out((w[..., None] * v).sum(1).reshape(b, 1, d))


class LayerScale(nn.Module):
    def __init__(self, d, fn, init=1e-1):
        super().__init__()
        self.fn, self.g = fn, nn.Parameter(torch.full((d,), init))

    def forward(self, *a):
        return self.g * self.fn(*a)


class CaiT(nn.Module):
    def __init__(self, d=32, h=4, depth=2, cls_depth=2, patch=4, classes=4, img=16):
        super().__init__()
        self.stem = nn.Conv2d(3, d, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, (img // patch) ** 2, d))
        self.cls = nn.Parameter(torch.randn(1, 1, d) * 0.02)
        mlp = lambda: nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.sa = nn.ModuleList(LayerScale(d, nn.Sequential(nn.LayerNorm(d), TalkingHeads(d, h))) for _ in range(depth))
        self.sm = nn.ModuleList(LayerScale(d, nn.Sequential(nn.LayerNorm(d), mlp())) for _ in range(depth))
        self.ca = nn.ModuleList(LayerScale(d, ClassAttention(d, h)) for _ in range(cls_depth))
        self.cm = nn.ModuleList(LayerScale(d, nn.Sequential(nn.LayerNorm(d), mlp())) for _ in range(cls_depth))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, img):
        x = self.stem(img).flatten(2).transpose(1, 2) + self.pos
        for a, m in zip(self.sa, self.sm):
            x = x + a(x)
            x = x + m(x)
        c = self.cls.expand(len(x), -1, -1)
        for a, m in zip(self.ca, self.cm):
            c = c + a(self.norm(c), self.norm(x))
            c = c + m(c)
        return self.head(self.norm(c)[:, 0])


if __name__ == "__main__":
    print(CaiT()(torch.rand(2, 3, 16, 16)).shape)
