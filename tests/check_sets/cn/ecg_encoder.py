"""Encoder layer for beat-aligned ECG windows.

We feed 12-lead recordings that were resampled to 100 Hz and embedded by a
small conv stem (not here).  Recordings of one batch differ in length, the tail
is zero padded by the collate function, so the layer gets the real lengths.
"""
import torch
from torch import nn
import torch.nn.functional as F


class BeatEncoderLayer(nn.Module):
    """Pre-norm transformer layer, bidirectional.

    forward(x, lengths)
        x        float [batch, time, dim]
        lengths  long  [batch], number of real frames at the front of each row
    returns      float [batch, time, dim], frames behind the end are 0
    """

    def __init__(self, dim=64, heads=4, ff=128, dropout=0.1):
        super().__init__()
        if dim % heads:
            raise ValueError("dim must be a multiple of heads")
        self.heads = heads
        self.p = dropout
        self.norm_a = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm_f = nn.LayerNorm(dim)
        self.ff = nn.Sequential(
            nn.Linear(dim, ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(ff, dim)
        )
        self.drop = nn.Dropout(dropout)

    def _attend(self, x, keep):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        # [b, t, c] -> [b, h, t, c/h]
        q, k, v = (
            z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v)
        )
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=keep[:, None, None, :],      # True: may be looked at
            dropout_p=self.p if self.training else 0.0,
        )
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x, lengths):
        t = x.shape[1]
        keep = torch.arange(t, device=x.device)[None, :] < lengths[:, None]
        x = x + self.drop(self._attend(self.norm_a(x), keep))
        x = x + self.drop(self.ff(self.norm_f(x)))
        return x * keep[..., None].to(x.dtype)


if __name__ == "__main__":
    layer = BeatEncoderLayer().eval()
    out = layer(torch.randn(2, 9, 64), torch.tensor([9, 5]))
    print(out.shape, out[1, 5:].abs().max())
