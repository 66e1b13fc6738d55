# kaggle: Galaxy10 with a tiny Swin (notebook -> script)
# based on my reading of "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows"
import torch
import torch.nn as nn

CFG = dict(img=32, patch=2, dim=24, heads=3, win=4, n_class=10)


def windows(x, w):
    """(B, H, W, C) -> (B * nW, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, C)


def unwindows(y, w, H, W):
    """inverse of windows()"""
    C = y.shape[-1]
    y = y.view(-1, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5)
    return y.reshape(-1, H, W, C)


def shifted_mask(H, W, w, s):
    """(nW, w*w, w*w), 0 inside a region and -100 between regions, as in the paper's code"""
    region = torch.zeros(1, H, W, 1)
    cuts = (slice(0, -w), slice(-w, -s), slice(-s, None))
    n = 0
    for a in cuts:
        for b in cuts:
            region[:, a, b] = n
            n += 1
    r = windows(region, w).squeeze(-1)
    return torch.where(r[:, None, :] == r[:, :, None], 0.0, -100.0)


class SwinAttn(nn.Module):
    def __init__(self, dim, heads, win, shift=0, res=16):
        super().__init__()
        self.h, self.w, self.s = heads, win, shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * win - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + win - 1          # 2, N, N
        self.register_buffer("idx", rel[0] * (2 * win - 1) + rel[1])
        self.register_buffer("mask", shifted_mask(res, res, win, shift) if shift else None)

    def forward(self, x):
        B, H, W, C = x.shape
        if self.s:
            x = torch.roll(x, (-self.s, -self.s), (1, 2))
        t = windows(x, self.w)
        N = t.shape[1]
        q, k, v = self.qkv(t).reshape(-1, N, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-2, -1)
        a = a + self.table[self.idx].permute(2, 0, 1)            # heads, N, N
        if self.mask is not None:
            nW = self.mask.shape[0]
            a = a.view(B, nW, self.h, N, N) + self.mask[None, :, None]
            a = a.view(-1, self.h, N, N)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, N, C)
        x = unwindows(self.proj(y), self.w, H, W)
        return torch.roll(x, (self.s, self.s), (1, 2)) if self.s else x


class Block(nn.Module):
    def __init__(self, dim, heads, win, shift, res):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.at = SwinAttn(dim, heads, win, shift, res)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.at(self.n1(x))
        return x + self.ff(self.n2(x))


class GalaxyNet(nn.Module):
    def __init__(self, img, patch, dim, heads, win, n_class):
        super().__init__()
        r = img // patch
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.Sequential(Block(dim, heads, win, 0, r), Block(dim, heads, win, win // 2, r))
        self.head = nn.Linear(dim, n_class)

    def forward(self, img):
        return self.head(self.blocks(self.stem(img).permute(0, 2, 3, 1)).mean((1, 2)))


if __name__ == "__main__":
    print(GalaxyNet(**CFG)(torch.rand(2, 3, 32, 32)).shape)
