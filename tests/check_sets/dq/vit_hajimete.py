"""はじめての Vision Transformer (ノートブック第4章)。

画像をパッチに切り、パッチどうしを注意機構で見比べる。
"""
import torch
import torch.nn as nn


class EncoderSou(nn.Module):
    """Pre-LN のエンコーダ層。x は (B, N, dim)。"""

    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, x):
        h = self.norm1(x)
        h, _ = self.attn(h, h, h)
        x = x + h
        return x + self.mlp(self.norm2(x))


class HajimeteViT(nn.Module):
    """画像 (B, 3, size, size) -> クラスの得点 (B, classes)。

    一枚の画像の中のパッチ同士だけが互いに見える。ほかの画像には依存しないので、
    一枚ずつ入れてもまとめて入れても結果は同じ。最後に全パッチの平均をとって
    分類する。位置埋め込みは学習する。
    """

    def __init__(self, size=16, patch=4, dim=32, heads=4, depth=2, classes=5):
        super().__init__()
        self.patch = patch
        n = (size // patch) ** 2
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.pos = nn.Parameter(torch.randn(1, n, dim) * 0.02)
        self.layers = nn.Sequential(*[EncoderSou(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def kiru(self, img):
        """(B, 3, S, S) -> (B, N, 3*p*p)"""
        B, C, S, _ = img.shape
        p = self.patch
        x = img.reshape(B, C, S // p, p, S // p, p)
        return x.permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * p * p)

    def forward(self, img):
        x = self.embed(self.kiru(img)) + self.pos
        x = self.layers(x)
        return self.head(x.mean(dim=1))
