"""Swin 主干网络（遥感影像分割用），单文件版本。

输入一律为 (B, H, W, C)。H、W 必须能被窗口大小整除。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    """(B, H, W, C) -> (B * nW, ws*ws, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(win, ws, H, W):
    """(B * nW, ws*ws, C) -> (B, H, W, C)"""
    C = win.shape[-1]
    x = win.view(-1, H // ws, W // ws, ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def relative_index(ws):
    c = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
    rel = c[:, :, None] - c[:, None, :] + ws - 1
    return rel[0] * (2 * ws - 1) + rel[1]


def shift_mask(H, W, ws, shift):
    """滚动之后，同一窗口里可能有原图上不相邻的像素；返回 (nW, N, N)，True 表示禁止。"""
    region = torch.zeros(1, H, W, 1)
    cuts = (slice(0, -ws), slice(-ws, -shift), slice(-shift, None))
    n = 0
    for hs in cuts:
        for wsl in cuts:
            region[:, hs, wsl] = n
            n += 1
    r = window_partition(region, ws).squeeze(-1)
    return r[:, :, None] != r[:, None, :]


class WindowAttention(nn.Module):
    def __init__(self, dim, ws, heads, qkv_bias=True, drop=0.0):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)
        self.table = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.register_buffer("index", relative_index(ws), persistent=False)

    def forward(self, x, forbid=None):
        """x (B*nW, N, C)；forbid (nW, N, N)，True 表示禁止。"""
        BW, N, C = x.shape
        q, k, v = self.qkv(x).view(BW, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index].permute(2, 0, 1)
        if forbid is not None:
            nW = forbid.shape[0]
            attn = attn.view(BW // nW, nW, self.heads, N, N)
            attn = attn.masked_fill(forbid[None, :, None], torch.finfo(attn.dtype).min)
            attn = attn.view(BW, self.heads, N, N)
        attn = self.drop(attn.softmax(-1))
        y = (attn @ v).transpose(1, 2).reshape(BW, N, C)
        return self.proj(y)


class SwinBlock(nn.Module):
    def __init__(self, dim, heads, ws=4, shifted=False, ratio=4):
        super().__init__()
        self.ws, self.shift = ws, ws // 2 if shifted else 0
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, ws, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * ratio), nn.GELU(), nn.Linear(dim * ratio, dim))

    def forward(self, x):
        B, H, W, C = x.shape
        shift = self.shift if min(H, W) > self.ws else 0
        h = self.norm1(x)
        forbid = None
        if shift:
            h = torch.roll(h, (-shift, -shift), (1, 2))
            forbid = shift_mask(H, W, self.ws, shift).to(x.device)
        h = self.attn(window_partition(h, self.ws), forbid)
        h = window_reverse(h, self.ws, H, W)
        if shift:
            h = torch.roll(h, (shift, shift), (1, 2))
        x = x + h
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(4 * dim)
        self.reduce = nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduce(self.norm(x))


class SwinSegmenter(nn.Module):
    def __init__(self, in_ch=4, classes=6, dim=32, depths=(2, 2), heads=(2, 4), ws=4, patch=2):
        super().__init__()
        self.patch = patch
        self.embed = nn.Conv2d(in_ch, dim, patch, patch)
        self.stages, self.heads = nn.ModuleList(), nn.ModuleList()
        for i, (d, h) in enumerate(zip(depths, heads)):
            c = dim * 2 ** i
            blocks = [SwinBlock(c, h, ws, shifted=j % 2 == 1) for j in range(d)]
            self.stages.append(nn.Sequential(*([PatchMerging(c // 2)] if i else []), *blocks))
            self.heads.append(nn.Conv2d(c, classes, 1))

    def forward(self, img):
        x = self.embed(img).permute(0, 2, 3, 1)
        out = 0
        for stage, head in zip(self.stages, self.heads):
            x = stage(x)
            logit = head(x.permute(0, 3, 1, 2))
            out = out + F.interpolate(logit, size=img.shape[-2:], mode="bilinear", align_corners=False)
        return out


if __name__ == "__main__":
    net = SwinSegmenter()
    print(net(torch.randn(1, 4, 32, 32)).shape)
