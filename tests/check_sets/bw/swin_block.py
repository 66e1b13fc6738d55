"""Swin Transformer のブロック(論文 https://arxiv.org/abs/2103.14030 の再実装)。

入力は [B, H, W, C]。shift > 0 のときは巡回シフトし、元の画像で隣り合って
いない領域どうしはマスクで見えないようにする。H, W は window の倍数とする。
"""
import torch
import torch.nn as nn


def window_partition(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def window_merge(win, w, B, H, W):
    x = win.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def shift_mask(H, W, w, s):
    """[窓の数, w*w, w*w] の bool。True = 見てよい。"""
    def region(n):
        r = torch.zeros(n, dtype=torch.long)
        r[n - w:n - s] = 1
        r[n - s:] = 2
        return r
    label = region(H)[:, None] * 3 + region(W)[None, :]
    lab = window_partition(label[None, :, :, None], w).squeeze(-1)
    return lab[:, :, None] == lab[:, None, :]


class SwinBlock(nn.Module):
    def __init__(self, dim=16, heads=2, window=4, shift=2, mlp_ratio=2):
        super().__init__()
        self.heads, self.w, self.s = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim))

        # 相対位置バイアス (2w-1)*(2w-1) 個
        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(
            torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + window - 1          # 2, N, N
        self.register_buffer("rel_index", rel[0] * (2 * window - 1) + rel[1])

    def window_attention(self, x, mask):
        n, N, C = x.shape
        qkv = self.qkv(x).reshape(n, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.mT                                  # n, h, N, N
        a = a + self.bias_table[self.rel_index].permute(2, 0, 1)
        if mask is not None:
            nw = mask.shape[0]
            a = a.view(n // nw, nw, self.heads, N, N)
            a = a.masked_fill(~mask[None, :, None], float("-inf"))
            a = a.view(n, self.heads, N, N)
        a = a.softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(n, N, C))

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.norm1(x)
        mask = None
        if self.s > 0:
            y = torch.roll(y, (-self.s, -self.s), dims=(1, 2))
            mask = shift_mask(H, W, self.w, self.s).to(x.device)
        y = self.window_attention(window_partition(y, self.w), mask)
        y = window_merge(y, self.w, B, H, W)
        if self.s > 0:
            y = torch.roll(y, (self.s, self.s), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


if __name__ == "__main__":
    blk = SwinBlock()
    print(blk(torch.randn(2, 8, 12, 16)).shape)
