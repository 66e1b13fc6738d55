"""Encoder per rilevamento di oggetti: posizioni 2D a seno e coseno (DETR).

sine2d(real, F, T=10000)
    real  (B, H, W) bool, True = pixel vero, False = bordo aggiunto
    ->    (B, H*W, 2*F): prima F canali per la riga y, poi F per la colonna x
Con y = numero d'ordine del pixel vero nella colonna (1, 2, ...), per
i = 0 ... F/2 - 1
    PE[2i] = sin(y / T^(2i/F))      PE[2i+1] = cos(y / T^(2i/F))
e lo stesso con x.

DetrEncoderLayer(dim, heads)
    forward(src, pos, pad)
        src  (B, N, dim), pos (B, N, dim)
        pad  (B, N) bool, True = pixel da non leggere (almeno uno False)
    le posizioni si sommano a domande e chiavi, non ai valori

encode(layers, feat, real)   feat (B, dim, H, W) -> (B, H*W, dim)
"""
import torch
from torch import nn


def _sine(p, F, T):
    """p (...,) -> (..., F)"""
    two_i = torch.arange(0, F, 2, dtype=torch.float32, device=p.device)
    angle = p[..., None] / T ** (2 * two_i / F)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


def sine2d(real, F, T=10000.0):
    y = real.cumsum(1).float()
    x = real.cumsum(2).float()
    return torch.cat((_sine(y, F, T), _sine(x, F, T)), dim=-1).flatten(1, 2)


class DetrEncoderLayer(nn.Module):
    def __init__(self, dim, heads=4, ff=128, dropout=0.0):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, src, pos, pad):
        qk = src + pos
        y, _ = self.attn(qk, qk, src, key_padding_mask=pad, need_weights=False)
        src = self.n1(src + y)
        return self.n2(src + self.ff(src))


def encode(layers, feat, real):
    src = feat.flatten(2).transpose(1, 2)
    pos = sine2d(real, feat.size(1) // 2)
    pad = ~real.flatten(1)
    for layer in layers:
        src = layer(src, pos, pad)
    return src
