"""Crosshair ("criss-cross") attention for sea-ice charts, after CCNet.

Crosshair(c, squeeze=2):  c channels in and out, c // squeeze channels to compare with.

forward(x):  x (B, c, H, W)  ->  (B, c, H, W)

Pixel (i, j) looks at the H + W - 1 pixels of its own column and its own row, itself
counted ONCE.  Logits are plain dot products (the paper does not scale them), ONE softmax
over all H + W - 1.  The result, times the learned weight gamma, is added to x.
"""
import torch
import torch.nn as nn


class Crosshair(nn.Module):
    def __init__(self, c, squeeze=2):
        super().__init__()
        self.theta = nn.Conv2d(c, c // squeeze, 1)
        self.phi = nn.Conv2d(c, c // squeeze, 1)
        self.g = nn.Conv2d(c, c, 1)
        self.gamma = nn.Parameter(torch.full((1,), 0.5))

    def forward(self, x):
        H, W = x.shape[-2:]
        t, p, g = self.theta(x), self.phi(x), self.g(x)
        # vertical hair: for pixel (i, j) all (m, j); the pixel itself is left to the row
        vert = torch.einsum("bcij,bcmj->bijm", t, p)
        me = torch.eye(H, dtype=torch.bool, device=x.device)[None, :, None, :]
        vert = vert.masked_fill(me, float("-inf"))
        # horizontal hair: all (i, n)
        hori = torch.einsum("bcij,bcin->bijn", t, p)
        a = torch.cat([vert, hori], dim=-1).softmax(-1)
        av, ah = a.split([H, W], dim=-1)
        y = torch.einsum("bijm,bcmj->bcij", av, g) + torch.einsum("bijn,bcin->bcij", ah, g)
        return x + self.gamma * y


if __name__ == "__main__":
    print(Crosshair(8)(torch.randn(2, 8, 5, 7)).shape)
