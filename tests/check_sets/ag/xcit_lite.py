import torch
from torch import nn


class LPI(nn.Module):
    """local patch interaction"""

    def __init__(self, c, k=3):
        super().__init__()
        self.a = nn.Conv2d(c, c, k, padding=k // 2, groups=c)
        self.bn = nn.BatchNorm2d(c)
        self.b = nn.Conv2d(c, c, k, padding=k // 2, groups=c)

    def forward(self, x, hw):
        b, n, c = x.shape
        x = x.transpose(1, 2).reshape(b, c, *hw)
        x = self.b(self.bn(torch.nn.functional.gelu(self.a(x))))
        return x.flatten(2).transpose(1, 2)


class XCA(nn.Module):
    """
    Cross-covariance attention (El-Nouby et al. 2021). The map is d x d per head:
        XCA(Q, K, V) = V . softmax(K^ T Q^ / tau)
    with Q^ and K^ of unit l2 norm along the tokens, so there is no 1/sqrt(d); the factor
    1 / tau is learned, one per head (`temperature`). Cost is linear in the number of tokens.
    In the row convention of the released code: out[:, i] = sum_j A[i, j] v[:, j].
    """

    def __init__(self, dim, heads=8, qkv_bias=False):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1)          # each B h d N
        q = nn.functional.normalize(q, dim=-1)
        k = nn.functional.normalize(k, dim=-1)
        a = (q @ k.transpose(-2, -1)) * self.temperature
        a = a.softmax(dim=-1)
        x = (a @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj(x)


class ClassAttention(nn.Module):
    """only token 0 asks; patches are passed through untouched"""

    def __init__(self, dim, heads=8):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        w = (q[:, :, :1] * k).sum(-1) * self.scale     # B h N
        w = w.softmax(dim=-1)
        cls = torch.einsum('bhn,bhnd->bhd', w, v).reshape(B, 1, C)
        return torch.cat([self.proj(cls), x[:, 1:]], dim=1)


class Block(nn.Module):
    def __init__(self, dim, heads, eta=1e-5):
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))
        self.attn, self.local = XCA(dim, heads), LPI(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.g1, self.g2, self.g3 = (nn.Parameter(eta * torch.ones(dim)) for _ in range(3))

    def forward(self, x, hw):
        x = x + self.g1 * self.attn(self.n1(x))
        x = x + self.g3 * self.local(self.n3(x), hw)
        return x + self.g2 * self.mlp(self.n2(x))


class XCiT(nn.Module):
    def __init__(self, dim=64, depth=2, heads=4, patch=8, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pool = ClassAttention(dim, heads)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, img):
        x = self.stem(img)
        hw = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2)
        for blk in self.blocks:
            x = blk(x, hw)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        x = x + self.pool(self.norm(x))
        return self.head(self.norm(x)[:, 0])


if __name__ == '__main__':
    print(XCiT()(torch.rand(2, 3, 32, 48)).shape)
