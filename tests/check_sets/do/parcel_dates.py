"""Crop classification of land parcels from Sentinel-2 time series.

refl   (B, T, C)   mean reflectances of the parcel at T acquisitions
doy    (B, T) int  day of the year of each acquisition (irregular!)
cloudy (B, T) bool True = the acquisition is cloudy and must not be used

Every head owns one learned query and pools the clear acquisitions:
    w^h = softmax over clear t of  query^h . key^h_t / sqrt(d_k)
    out^h = sum_t w^h_t v^h_t,        v^h_t = h-th group of channels
                                             of the embedded acquisition t
Parcels that are cloudy on all dates give a zero embedding.
Sinusoidal encoding of the day: pe[2i] = sin(day / 1000^(2i/d)), pe[2i+1] = cos(same).
"""
import torch
from torch import nn


def day_encoding(doy, d, tau=1000.0):
    i = torch.arange(0, d, 2, device=doy.device, dtype=torch.float32)
    ang = doy.float()[..., None] / tau ** (i / d)
    return torch.stack([ang.sin(), ang.cos()], dim=-1).flatten(-2)


class ParcelPool(nn.Module):
    def __init__(self, bands, d=32, heads=4, dk=8, classes=6):
        super().__init__()
        self.heads, self.dk, self.d = heads, dk, d
        self.inp = nn.Sequential(nn.Linear(bands, d), nn.LayerNorm(d))
        self.key = nn.Linear(d, heads * dk)
        self.query = nn.Parameter(torch.randn(heads, dk) * (2.0 / dk) ** 0.5)
        self.head = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, classes))

    def embed(self, refl, doy, cloudy):
        B, T, _ = refl.shape
        x = self.inp(refl) + day_encoding(doy, self.d)
        k = self.key(x).view(B, T, self.heads, self.dk)
        s = (k * self.query).sum(-1) / self.dk ** 0.5                 # (B, T, H)
        s = s.masked_fill(cloudy.unsqueeze(-1), torch.finfo(s.dtype).min)
        w = torch.softmax(s, dim=1)
        w = w.masked_fill(cloudy.unsqueeze(-1), 0.0)
        v = x.view(B, T, self.heads, self.d // self.heads)
        return (w.unsqueeze(-1) * v).sum(1).reshape(B, self.d), w

    def forward(self, refl, doy, cloudy):
        z, _ = self.embed(refl, doy, cloudy)
        return self.head(z)
