"""Homework 3: image encoder with patches, CIFAR-10.

(batch, 3, 32, 32) images are cut into 8x8 patches by a strided convolution, and
the patches of an image exchange information in transformer layers.  The class
scores come from the mean over patches.
"""
import torch
import torch.nn as nn


class PatchEmbedding(nn.Module):
    def __init__(self, dim, patch=8, image=32):
        super().__init__()
        self.conv = nn.Conv2d(3, dim, kernel_size=patch, stride=patch)
        self.pos = nn.Parameter(0.02 * torch.randn((image // patch) ** 2, dim))

    def forward(self, img):
        x = self.conv(img)                      # batch, dim, 4, 4
        x = x.flatten(start_dim=2).transpose(1, 2)
        return x + self.pos                     # batch, 16, dim


class Layer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.norm_a = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, dropout=dropout)
        self.norm_b = nn.LayerNorm(dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim)
        )

    def forward(self, x):
        h = self.norm_a(x)
        h, _ = self.attention(h, h, h, need_weights=False)
        x = x + h
        return x + self.feed_forward(self.norm_b(x))


class ImageEncoder(nn.Module):
    def __init__(self, dim=24, heads=4, depth=2, classes=10, dropout=0.1):
        super().__init__()
        self.patches = PatchEmbedding(dim)
        self.layers = nn.ModuleList([Layer(dim, heads, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.patches(img)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x).mean(dim=1))


if __name__ == "__main__":
    model = ImageEncoder().eval()
    print(model(torch.randn(4, 3, 32, 32)).shape)
