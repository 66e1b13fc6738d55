"""Vector quantiser for satellite tiles: hard look-up in a learned table."""
import torch
from torch import nn
import torch.nn.functional as F


class CodebookLookup(nn.Module):
    """Replaces every pixel feature by the value of the nearest key in a table of
    `n_codes` (key, value) pairs (Euclidean distance, ties to the lower index).

    x (B, C, H, W) -> quantised (B, C, H, W), indices (B, H, W), commitment loss.
    Gradients go straight through to x.
    """

    def __init__(self, dim=8, n_codes=16, beta=0.25):
        super().__init__()
        self.keys = nn.Parameter(torch.randn(n_codes, dim))
        self.values = nn.Parameter(torch.randn(n_codes, dim))
        self.beta = beta

    def forward(self, x):
        B, C, H, W = x.shape
        query = x.permute(0, 2, 3, 1).reshape(-1, C)
        idx = torch.cdist(query, self.keys).argmin(dim=1)
        near, val = self.keys[idx], F.embedding(idx, self.values)
        loss = F.mse_loss(near, query.detach()) + self.beta * F.mse_loss(query, near.detach())
        val = query + (val - query).detach() + (val - val.detach())
        quant = val.view(B, H, W, C).permute(0, 3, 1, 2)
        return quant, idx.view(B, H, W), loss


class TileAutoencoder(nn.Module):
    """(B, 4, H, W) -> reconstruction and loss; H and W divisible by 4."""

    def __init__(self, bands=4, dim=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(bands, dim, 4, 2, 1), nn.ReLU(), nn.Conv2d(dim, dim, 4, 2, 1))
        self.vq = CodebookLookup(dim)
        self.dec = nn.Sequential(nn.ConvTranspose2d(dim, dim, 4, 2, 1), nn.ReLU(),
                                 nn.ConvTranspose2d(dim, bands, 4, 2, 1))

    def forward(self, tile):
        z, _, loss = self.vq(self.enc(tile))
        rec = self.dec(z)
        return rec, F.mse_loss(rec, tile) + loss
