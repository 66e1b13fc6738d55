"""The all-MLP family side by side: MLP-Mixer, ResMLP, gMLP (no attention anywhere, that is the
point of the post).  Tokens are (batch, patches, channels)."""
import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x * self.g + self.b


def mlp(d, hidden):
    return nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))


class MixerLayer(nn.Module):
    def __init__(self, n_patches, dim, tok_hidden, ch_hidden):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens, self.channels = mlp(n_patches, tok_hidden), mlp(dim, ch_hidden)

    def forward(self, x):
        x = x + self.tokens(self.n1(x).mT).mT
        return x + self.channels(self.n2(x))


class ResMLPLayer(nn.Module):
    def __init__(self, n_patches, dim, **_):
        super().__init__()
        self.a1, self.a2 = Affine(dim), Affine(dim)
        self.patch, self.ff = nn.Linear(n_patches, n_patches), mlp(dim, 4 * dim)

    def forward(self, x):
        x = x + self.patch(self.a1(x).mT).mT
        return x + self.ff(self.a2(x))


class SpatialGatingUnit(nn.Module):
    def __init__(self, n_patches, half):
        super().__init__()
        self.norm = nn.LayerNorm(half)
        self.spatial = nn.Linear(n_patches, n_patches)
        nn.init.normal_(self.spatial.weight, std=1e-3)
        nn.init.ones_(self.spatial.bias)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        return u * self.spatial(self.norm(v).mT).mT


class GMLPLayer(nn.Module):
    def __init__(self, n_patches, dim, hidden):
        super().__init__()
        self.norm, self.inp = nn.LayerNorm(dim), nn.Linear(dim, hidden)
        self.sgu, self.out = SpatialGatingUnit(n_patches, hidden // 2), nn.Linear(hidden // 2, dim)

    def forward(self, x):
        return x + self.out(self.sgu(torch.nn.functional.gelu(self.inp(self.norm(x)))))


class PatchNet(nn.Module):
    def __init__(self, kind="mixer", img=32, patch=8, dim=24, depth=2, classes=10):
        super().__init__()
        n = (img // patch) ** 2
        make = {"mixer": lambda: MixerLayer(n, dim, 2 * n, 4 * dim),
                "resmlp": lambda: ResMLPLayer(n, dim),
                "gmlp": lambda: GMLPLayer(n, dim, 4 * dim)}[kind]
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.body = nn.Sequential(*[make() for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.stem(img).flatten(2).mT
        return self.head(self.body(x).mean(1))


if __name__ == "__main__":
    for k in ("mixer", "resmlp", "gmlp"):
        print(k, PatchNet(k)(torch.rand(2, 3, 32, 32)).shape)
