import torch
import torch.nn as nn

# Swin stage for the WSI tile classifier. Feature maps are channels-last: B H W C.


def window_partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(win, ws, H, W):
    C = win.shape[-1]
    x = win.view(-1, H // ws, W // ws, ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class WindowAttention(nn.Module):
    """W-MSA with relative position bias; `mask` is additive, [n_windows, N, N]."""

    def __init__(self, dim, ws, num_heads, attn_drop=0.0):
        super().__init__()
        self.ws, self.num_heads = ws, num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, num_heads))
        c = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + ws - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * ws - 1) + rel[..., 1], persistent=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_drop)
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.table[self.rel_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask[None, :, None]
            attn = attn.view(B_, self.num_heads, N, N)
        attn = self.attn_drop(attn.softmax(dim=-1))
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim, num_heads, ws=4, shift=0, ratio=4):
        super().__init__()
        self.ws, self.shift = ws, shift
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, ws, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, ratio * dim), nn.GELU(), nn.Linear(ratio * dim, dim))

    def region_mask(self, H, W, device, dtype):
        img = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        n = 0
        for a in cuts:
            for b in cuts:
                img[:, a, b] = n
                n += 1
        reg = window_partition(img, self.ws).squeeze(-1)
        same = reg[:, None, :] == reg[:, :, None]
        return torch.zeros(same.shape, device=device, dtype=dtype).masked_fill(~same, float("-inf"))

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.n1(x)
        mask = None
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
            mask = self.region_mask(H, W, x.device, x.dtype)
        y = window_reverse(self.attn(window_partition(y, self.ws), mask), self.ws, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))


class TileClassifier(nn.Module):
    def __init__(self, dim=48, heads=3, n_classes=9, patch=4):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.stage = nn.Sequential(SwinBlock(dim, heads, 4, 0), SwinBlock(dim, heads, 4, 2))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, img):
        x = self.embed(img).permute(0, 2, 3, 1)
        return self.head(self.stage(x).mean((1, 2)))
