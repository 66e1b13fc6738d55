import torch
from torch import nn


class LineAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        # x (lines, n, dim)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        a = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        return self.out((a @ v).transpose(1, 2).flatten(2))


class AxialAttention(nn.Module):
    """Attention along the rows of an image, then along its columns.  img (B, H, W, dim) -> (B, H, W, dim)"""

    def __init__(self, dim, heads=2):
        super().__init__()
        self.row = LineAttention(dim, heads)
        self.col = LineAttention(dim, heads)

    def forward(self, img):
        b, h, w, d = img.shape
        x = img + self.row(img.reshape(b * h, w, d)).reshape(b, h, w, d)
        y = x
        y = self.col(y.reshape(-1, y.shape[2], d)).reshape(y.shape)
        return x + y
