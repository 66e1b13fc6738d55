"""Talaridentifiering: pooling av ramar till en röstvektor (attentive statistics pooling)."""
import torch
import torch.nn as nn


class RostPool(nn.Module):
    """ramar: (B, C, T) features from the TDNN, langd: (B,) number of valid frames.

    One softmax over time per channel (Okabe et al. / ECAPA). The frame scores also see the
    global mean and standard deviation. Returns (B, 2C): weighted mean and weighted std.
    """

    def __init__(self, kanaler=12, flaskhals=6, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.inn = nn.Conv1d(3 * kanaler, flaskhals, 1)
        self.ut = nn.Conv1d(flaskhals, kanaler, 1)

    def _stat(self, x, w):
        mu = (x * w).sum(2)
        var = ((x - mu.unsqueeze(2)) ** 2 * w).sum(2)
        return mu, var.clamp(min=self.eps).sqrt()

    def forward(self, ramar, langd):
        B, C, T = ramar.shape
        giltig = (torch.arange(T, device=ramar.device)[None] < langd[:, None]).unsqueeze(1)
        jamn = giltig.to(ramar.dtype) / langd.to(ramar.dtype).clamp(min=1)[:, None, None]
        mu, sd = self._stat(ramar, jamn)
        kontext = torch.cat((mu, sd), dim=1).unsqueeze(2).expand(-1, -1, T)
        e = self.ut(torch.tanh(self.inn(torch.cat((ramar, kontext), dim=1))))
        e = e.masked_fill(~giltig, torch.finfo(e.dtype).min)
        vikt = torch.softmax(e, dim=2)
        return torch.cat(self._stat(ramar, vikt), dim=1)
