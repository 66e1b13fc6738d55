import torch
from torch import nn


class LatentReader(nn.MultiheadAttention):
    """Perceiver encoder step: a fixed set of learned latents reads a byte array.

    forward(bytes_, lengths): bytes_ (B, S, in_dim), lengths (B,) long with 1 <= length <= S.
    Returns (B, n_latents, width).
    """

    def __init__(self, n_latents=5, width=16, in_dim=7, heads=2):
        super().__init__(width, heads, kdim=in_dim, vdim=in_dim, batch_first=True)
        self.latents = nn.Parameter(torch.randn(n_latents, width))
        self.pre_q = nn.LayerNorm(width)
        self.pre_kv = nn.LayerNorm(in_dim)

    def forward(self, bytes_, lengths=None):
        B, S, _ = bytes_.shape
        src = self.pre_kv(bytes_)
        z = self.latents.expand(B, -1, -1)
        pad = None
        if lengths is not None:
            pad = ~(torch.arange(S, device=src.device) < lengths[:, None])
        read, _ = super().forward(self.pre_q(z), src, src, key_padding_mask=pad, need_weights=False)
        return z + read
