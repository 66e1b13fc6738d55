import torch
import torch.nn as nn


def to_windows(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def from_windows(win, ws, H, W):
    B = win.shape[0] // ((H // ws) * (W // ws))
    x = win.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class WindowMSA(nn.Module):
    """Window attention with relative position bias for the segmentation backbone.

    The fused projection keeps the layout of the published weights, i.e. the rows
    of ``qkv.weight`` are [all of q ; all of k ; all of v], see ``load_split``.
    """

    def __init__(self, dim, window=4, heads=3):
        super().__init__()
        self.dim, self.ws, self.heads = dim, window, heads
        self.hd = dim // heads
        self.scale = self.hd ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=.02)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (yx[:, :, None] - yx[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * window - 1) + rel[..., 1])

    @torch.no_grad()
    def load_split(self, wq, wk, wv, bq, bk, bv):
        """old checkpoints have three separate linears"""
        self.qkv.weight.copy_(torch.cat([wq, wk, wv], dim=0))
        self.qkv.bias.copy_(torch.cat([bq, bk, bv], dim=0))

    def forward(self, x, mask=None):
        """x: (num_windows*B, ws*ws, C); mask: (num_windows, ws*ws, ws*ws) with 0 / -100"""
        Bw, N, C = x.shape
        qkv = self.qkv(x).reshape(Bw, N, self.heads, 3, self.hd)
        q, k, v = qkv.permute(3, 0, 2, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.table[self.rel_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(Bw // nW, nW, self.heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.heads, N, N)
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(Bw, N, C)
        return self.proj(x)
