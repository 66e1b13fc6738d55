"""ConvNeXt-V2 stage with a gated depthwise branch, for leaf disease photos.

Everything is convolutional. A block is: 7x7 depthwise convolution, LayerNorm over the
channels, expansion in two halves (value and gate), Global Response Normalisation,
projection, drop path.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class GRN(nn.Module):
    """Global response normalisation: x * (|x| / mean |x|) with affine and residual."""

    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, dim, 1, 1))
        self.beta = nn.Parameter(torch.zeros(1, dim, 1, 1))

    def forward(self, x):
        g = torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True)
        n = g / (g.mean(dim=1, keepdim=True) + 1e-6)
        return self.gamma * (x * n) + self.beta + x


class DropPath(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = torch.rand(x.shape[0], 1, 1, 1, device=x.device) >= self.p
        return x * keep / (1 - self.p)


class GatedConvBlock(nn.Module):
    def __init__(self, dim=16, expand=2, drop_path=0.0):
        super().__init__()
        hidden = expand * dim
        self.dw = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = LayerNorm2d(dim)
        self.fc1 = nn.Conv2d(dim, 2 * hidden, 1)
        self.gate_dw = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.grn = GRN(hidden)
        self.fc2 = nn.Conv2d(hidden, dim, 1)
        self.drop_path = DropPath(drop_path)

    def forward(self, x):
        y = self.norm(self.dw(x))
        value, gate = self.fc1(y).chunk(2, dim=1)
        y = F.gelu(value) * torch.sigmoid(self.gate_dw(gate))
        return x + self.drop_path(self.fc2(self.grn(y)))


class LeafNet(nn.Module):
    def __init__(self, classes=5, dims=(16, 32), depths=(2, 2)):
        super().__init__()
        layers, prev = [nn.Conv2d(3, dims[0], 4, 4)], dims[0]
        for d, n in zip(dims, depths):
            if d != prev:
                layers += [LayerNorm2d(prev), nn.Conv2d(prev, d, 2, 2)]
            layers += [GatedConvBlock(d) for _ in range(n)]
            prev = d
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(prev, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


if __name__ == "__main__":
    print(LeafNet()(torch.randn(2, 3, 64, 64)).shape)
