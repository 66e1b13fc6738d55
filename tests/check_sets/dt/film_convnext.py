"""ConvNeXt block conditioned with FiLM, used in our denoiser between the U-Net levels.

x (B, C, H, W), emb (B, E) noise-level embedding -> (B, C, H, W).

depthwise 7x7 -> LayerNorm over channels -> FiLM(emb) -> 1x1 (4C) -> GELU -> GRN -> 1x1 (C)
-> layer scale -> + x
"""
import torch
import torch.nn as nn


class GlobalResponseNorm(nn.Module):
    """x (B, H, W, C): divides the energy of a channel by the mean energy of all channels."""

    def __init__(self, c):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(c))
        self.beta = nn.Parameter(torch.zeros(c))

    def forward(self, x):
        energy = x.norm(p=2, dim=(1, 2), keepdim=True)
        query = energy / (energy.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * query) + self.beta + x


class FilmConvNeXt(nn.Module):
    def __init__(self, c, e, layer_scale=1e-2):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.norm = nn.LayerNorm(c, elementwise_affine=False)
        self.film = nn.Linear(e, 2 * c)
        self.key = nn.Linear(c, 4 * c)
        self.act = nn.GELU()
        self.grn = GlobalResponseNorm(4 * c)
        self.value = nn.Linear(4 * c, c)
        self.ls = nn.Parameter(torch.full((c,), layer_scale))

    def forward(self, x, emb):
        h = self.dw(x).permute(0, 2, 3, 1)
        scale, shift = self.film(emb)[:, None, None, :].chunk(2, dim=-1)
        h = self.norm(h) * (1 + scale) + shift
        h = self.value(self.grn(self.act(self.key(h))))
        return x + (self.ls * h).permute(0, 3, 1, 2)
