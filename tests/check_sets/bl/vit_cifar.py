# ViT для CIFAR-10, один файл, без timm. Учебный проект.
import torch
from torch import nn


def patchify(images, p):
    """(B, C, H, W) -> (B, N, C*p*p)"""
    b, c, h, w = images.shape
    x = images.reshape(b, c, h // p, p, w // p, p)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(b, (h // p) * (w // p), c * p * p)


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        keep = 1 - self.p
        m = x.new_empty(x.shape[0], 1, 1).bernoulli_(keep)
        return x * m / keep


class MSA(nn.Module):
    """Многоголовое внимание с «говорящими головами» (talking heads, Shazeer 2020):
    логиты и веса смешиваются между головами двумя матрицами heads x heads.

    Порядок в qkv: (3, heads, dim_head), как в timm.
    """

    def __init__(self, dim, heads=4, drop=0.0):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.mix_before = nn.Linear(heads, heads)   # смешивание до softmax
        self.mix_after = nn.Linear(heads, heads)    # и после него
        self.drop = nn.Dropout(drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q = q * self.scale

        attn = q @ k.transpose(-2, -1)                                    # b h n n
        attn = self.mix_before(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = attn.softmax(dim=-1)
        attn = self.mix_after(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = self.drop(attn)

        x = (attn @ v).transpose(1, 2).reshape(b, n, c)
        return self.proj(x)


class Layer(nn.Module):
    def __init__(self, dim, heads, mlp, drop, drop_path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MSA(dim, heads, drop)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Dropout(drop), nn.Linear(mlp, dim))
        self.dp = DropPath(drop_path)

    def forward(self, x):
        x = x + self.dp(self.attn(self.norm1(x)))
        return x + self.dp(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, size=32, patch=4, dim=96, depth=6, heads=4, classes=10, drop=0.1):
        super().__init__()
        self.patch = patch
        n = (size // patch) ** 2
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.layers = nn.ModuleList([Layer(dim, heads, 2 * dim, drop, 0.1 * i / depth) for i in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.embed(patchify(img, self.patch))
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0]))


if __name__ == '__main__':
    net = ViT(depth=2)
    print(net(torch.randn(2, 3, 32, 32)).shape, sum(p.numel() for p in net.parameters()))
