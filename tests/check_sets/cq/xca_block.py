import torch
import torch.nn as nn
import torch.nn.functional as F


class XCA(nn.Module):
    """Cross-covariance attention (XCiT, El-Nouby et al. 2021).

    The attention map is (d x d) per head: the *channels* attend to the channels, the tokens are
    what is summed over.  q and k are l2-normalised along the token axis and the logits are
    multiplied by a learned temperature, one per head.  Cost is linear in the number of tokens.

    x: (B, N, C) -> (B, N, C)
    """

    def __init__(self, dim=32, num_heads=4, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1)  # each (B, H, d, N)
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)

        attn = (q @ k.transpose(-2, -1)) * self.temperature  # (B, H, d, d)
        attn = attn.softmax(dim=-1)

        x = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj(x)


class LPI(nn.Module):
    """Local patch interaction: two depth-wise 3x3 convolutions."""

    def __init__(self, dim):
        super().__init__()
        self.conv1 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.bn = nn.BatchNorm2d(dim)
        self.conv2 = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, x, H, W):
        B, N, C = x.shape
        x = x.permute(0, 2, 1).reshape(B, C, H, W)
        x = self.conv2(self.bn(F.gelu(self.conv1(x))))
        return x.flatten(2).transpose(1, 2)


class XCABlock(nn.Module):
    def __init__(self, dim=32, num_heads=4, mlp_ratio=2, eta=1e-1):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))
        self.attn = XCA(dim, num_heads)
        self.lpi = LPI(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim)
        )
        self.gamma = nn.ParameterList([nn.Parameter(eta * torch.ones(dim)) for _ in range(3)])

    def forward(self, x, H, W):
        x = x + self.gamma[0] * self.attn(self.norm1(x))
        x = x + self.gamma[1] * self.lpi(self.norm3(x), H, W)
        return x + self.gamma[2] * self.mlp(self.norm2(x))
