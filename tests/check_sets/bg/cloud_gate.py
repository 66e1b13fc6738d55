"""Cloud removal in optical satellite series: radar tokens fill what the clouds hide.

Cosine attention: q and k are normalised and the product is multiplied by a learned
temperature per head (exp, at most 100), so no 1/sqrt(d).  A sigmoid gate computed from the
query side closes heads that found nothing.
"""
import math
from typing import Optional
import torch
from torch import nn, Tensor
import torch.nn.functional as F


class GatedCosineCross(nn.Module):
    """optical [B, N, D], radar [B, M, D], valid [B, M] (1/0, at least one 1) -> [B, N, D]"""

    LIMIT = math.log(100.0)

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.g = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.log_temp = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))

    def forward(self, optical: Tensor, radar: Tensor, valid: Optional[Tensor] = None) -> Tensor:
        B, N, D = optical.shape
        cut = lambda t: t.reshape(B, t.shape[1], self.heads, -1).transpose(1, 2)
        q = F.normalize(cut(self.q(optical)), dim=-1)
        k = F.normalize(cut(self.k(radar)), dim=-1)
        logits = q @ k.transpose(-2, -1) * self.log_temp.clamp(max=self.LIMIT).exp()
        if valid is not None:
            logits = logits + torch.log(valid.to(logits.dtype))[:, None, None, :]
        y = logits.softmax(dim=-1) @ cut(self.v(radar))
        y = y.transpose(1, 2).reshape(B, N, D)
        return self.o(y * torch.sigmoid(self.g(optical)))


class CloudFiller(nn.Module):
    def __init__(self, optical_bands=4, radar_bands=2, dim=32, patch=4):
        super().__init__()
        self.patch = patch
        self.eo = nn.Conv2d(optical_bands, dim, patch, patch)
        self.sar = nn.Conv2d(radar_bands, dim, patch, patch)
        self.mix = GatedCosineCross(dim, 4)
        self.back = nn.ConvTranspose2d(dim, optical_bands, patch, patch)

    def forward(self, eo, sar):
        a = self.eo(eo)
        h, w = a.shape[-2:]
        a, s = a.flatten(2).mT, self.sar(sar).flatten(2).mT
        a = a + self.mix(a, s)
        return self.back(a.mT.unflatten(2, (h, w)))


if __name__ == "__main__":
    print(CloudFiller()(torch.randn(1, 4, 16, 16), torch.randn(1, 2, 16, 16)).shape)
