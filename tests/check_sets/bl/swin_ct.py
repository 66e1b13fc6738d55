""" Swin blocks for CT slices (encoder of our Swin-UNETR-2D baseline).

Shifted-window attention with a learned relative position bias, cyclic shift and region mask.
"""
import torch
import torch.nn as nn


def window_partition(x, ws):
    """ (B, H, W, C) -> (num_windows*B, ws, ws, C) """
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws, ws, C)


def window_reverse(windows, ws, H, W):
    B = int(windows.shape[0] / (H * W / ws / ws))
    x = windows.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads, qkv_bias=True):
        super().__init__()
        self.window_size = window_size
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window_size - 1) ** 2, num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=.02)

        coords = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij"))
        flat = coords.flatten(1)
        rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
        rel += window_size - 1
        rel[:, :, 0] *= 2 * window_size - 1
        self.register_buffer("relative_position_index", rel.sum(-1))

        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        """ x: (num_windows*B, N, C);  mask: (num_windows, N, N), 0 or -inf, or None """
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)

        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1)
        attn = attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class ShiftedWindowBlock(nn.Module):
    """ forward(x): x (B, H, W, C), H and W multiples of window_size. Pixels attend to the pixels of
    their own window; after the shift, pixels that come from opposite borders do not see each other. """

    def __init__(self, dim, resolution, num_heads, window_size=4, shift=True):
        super().__init__()
        self.ws, self.shift = window_size, window_size // 2 if shift else 0
        self.norm = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window_size, num_heads)
        self.register_buffer("attn_mask", self._region_mask(*resolution) if self.shift else None)

    def _region_mask(self, H, W):
        img_mask = torch.zeros((1, H, W, 1))
        cuts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        cnt = 0
        for h in cuts:
            for w in cuts:
                img_mask[:, h, w, :] = cnt
                cnt += 1
        m = window_partition(img_mask, self.ws).view(-1, self.ws * self.ws)
        m = m.unsqueeze(1) - m.unsqueeze(2)
        return m.masked_fill(m != 0, float("-inf"))

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        win = window_partition(y, self.ws).view(-1, self.ws * self.ws, C)
        win = self.attn(win, mask=self.attn_mask)
        y = window_reverse(win.view(-1, self.ws, self.ws, C), self.ws, H, W)
        if self.shift:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        return x + y


if __name__ == "__main__":
    net = nn.Sequential(ShiftedWindowBlock(24, (8, 16), 3, shift=False), ShiftedWindowBlock(24, (8, 16), 3))
    print(net(torch.randn(2, 8, 16, 24)).shape)
