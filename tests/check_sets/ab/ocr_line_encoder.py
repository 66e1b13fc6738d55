import torch
import torch.nn as nn


class ColumnStem(nn.Module):
    """grey text line 1x32xW -> one token for every 4 pixel columns"""

    def __init__(self, dim):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, dim // 4, 3, 2, 1), nn.BatchNorm2d(dim // 4), nn.ReLU(),
            nn.Conv2d(dim // 4, dim, 3, 2, 1), nn.BatchNorm2d(dim), nn.ReLU(),
        )

    def forward(self, img):
        return self.body(img).mean(dim=2).transpose(1, 2)


class Attention(nn.Module):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, in `heads` heads of size d_k"""

    def __init__(self, dim, heads=8, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))

    def forward(self, x, mask=None):
        b, n, c = x.shape
        h = self.heads
        q, k, v = (t.view(b, n, h, c // h).permute(0, 2, 1, 3) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.einsum('bhid,bhjd->bhij', q, k) * self.scale
        if mask is not None:
            # mask: (b, n), True for columns that carry ink or blank paper, False for the batch padding
            dots = dots.masked_fill(~mask[:, None, None, :], -torch.finfo(dots.dtype).max)
        attn = dots.softmax(dim=-1)
        out = torch.einsum('bhij,bhjd->bhid', attn, v)
        out = out.permute(0, 2, 1, 3).reshape(b, n, c)
        return self.to_out(out)


class Layer(nn.Module):
    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.na, self.nf = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, x, mask=None):
        x = x + self.attn(self.na(x), mask)
        return x + self.ff(self.nf(x))


class LineRecognizer(nn.Module):
    def __init__(self, charset=97, dim=128, depth=4, heads=8):
        super().__init__()
        self.stem = ColumnStem(dim)
        self.pos = nn.Parameter(torch.zeros(1, 512, dim))
        self.layers = nn.ModuleList([Layer(dim, heads, dim * 2) for _ in range(depth)])
        self.ctc = nn.Linear(dim, charset + 1)

    def forward(self, img, mask=None):
        x = self.stem(img)
        x = x + self.pos[:, :x.shape[1]]
        for l in self.layers:
            x = l(x, mask)
        return self.ctc(x).log_softmax(-1)
