from functools import lru_cache
import torch
from torch import nn


@lru_cache
def pair_index(w):
    c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    r = (c[:, :, None] - c[:, None, :]) + (w - 1)
    return r[0] * (2 * w - 1) + r[1]


class PaneAttention(nn.Module):
    r"""Window based multi-head self attention with relative position bias.

    Args:
        dim (int): number of input channels
        pane (int): side of the window
        num_heads (int): number of attention heads
        qkv_bias (bool): add a learnable bias to q, k, v
        qk_scale (float | None): override of head_dim ** -0.5
    """

    def __init__(self, dim, pane, num_heads, qkv_bias=True, qk_scale=None,
                 attn_drop=0., proj_drop=0.):
        super().__init__()
        self.dim = dim
        self.pane = pane
        self.num_heads = num_heads
        self.scale = qk_scale or dim ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * pane - 1) ** 2, num_heads))
        self.register_buffer("pair_index", pair_index(pane), persistent=False)
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)
        nn.init.trunc_normal_(self.table, std=.02)

    def forward(self, x, mask=None):
        """
        Args:
            x: windows, (num_windows*B, N, C)
            mask: (0/-inf) of shape (num_windows, N, N) or None
        """
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.table[self.pair_index.view(-1)].view(N, N, -1)
        attn = attn + bias.permute(2, 0, 1).unsqueeze(0)

        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.attn_drop(attn.softmax(dim=-1))

        x = (attn @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj_drop(self.proj(x))
