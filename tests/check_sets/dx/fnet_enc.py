"""FNet encoder (Lee-Thorp et al. 2021): token mixing by Fourier transform, with a pad mask.

x     (B, L, D)
mask  (B, L), 1 = token, 0 = padding. Padding is set to zero before each mixing, so that it
      adds nothing to the sums.
->    (B, L, D), and the mean over the tokens, (B, D)

mixing(x) = Re( FFT over L of FFT over D of x ); then residual + norm, feed-forward, residual
+ norm, as in BERT but with the mixing in the place of the self-attention.
"""
import torch
import torch.nn as nn

CFG = {"dim": 32, "hidden": 64, "layers": 2, "dropout": 0.1}


class FNetLayer(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim), nn.Dropout(dropout)
        )

    def forward(self, x, keep):
        mixed = torch.fft.fft(torch.fft.fft(x * keep, dim=-1), dim=-2).real
        x = self.norm1(x + mixed)
        return self.norm2(x + self.ff(x))


class FNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.layers = nn.ModuleList(
            FNetLayer(cfg["dim"], cfg["hidden"], cfg["dropout"]) for _ in range(cfg["layers"])
        )

    def forward(self, x, mask):
        keep = mask.unsqueeze(-1).to(x.dtype)
        for layer in self.layers:
            x = layer(x, keep)
        pooled = (x * keep).sum(1) / keep.sum(1).clamp(min=1)
        return x, pooled
