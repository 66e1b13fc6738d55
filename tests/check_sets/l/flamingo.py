import torch
from torch import nn, einsum


class MaskedCross(nn.Module):
    def __init__(self, dim, dim_head=8, heads=4):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        inner_dim = dim_head * heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, x, media, media_mask=None):
        """media_mask (batch, media length): True where the media token is there."""
        b, n, h = x.shape[0], x.shape[1], self.heads
        q = self.to_q(self.norm(x)).reshape(b, n, h, -1).transpose(1, 2) * self.scale
        k, v = self.to_kv(media).reshape(b, media.shape[1], 2, h, -1).permute(2, 0, 3, 1, 4)
        sim = einsum("... i d, ... j d -> ... i j", q, k)
        if media_mask is not None:
            sim.masked_fill(~media_mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = einsum("... i j, ... j d -> ... i d", attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))
