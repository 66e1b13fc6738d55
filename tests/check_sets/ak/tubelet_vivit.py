"""ViViT with tubelet embedding: factorised encoder, spatial first, temporal after."""
import torch
from torch import nn
import torch.nn.functional as F


class TubeletEmbed(nn.Module):
    """[B, 3, T, H, W] -> [B, t, n, dim]"""

    def __init__(self, dim, tubelet=(2, 4, 4)):
        super().__init__()
        self.proj = nn.Conv3d(3, dim, kernel_size=tubelet, stride=tubelet)

    def forward(self, video):
        return self.proj(video).flatten(3).permute(0, 2, 3, 1)


class ViViTAttention(nn.Module):
    """Self-attention; attention dropout is a regulariser for training."""

    def __init__(self, dim, num_heads=4, qkv_bias=True, attn_drop=0.1, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = attn_drop
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x, key_ok=None):
        """key_ok [B, N], True for tokens that exist."""
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        mask = None if key_ok is None else key_ok[:, None, None, :]
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.attn_drop)
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class DropPath(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.p == 0.0 or not self.training:
            return x
        keep = 1 - self.p
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        return x * x.new_empty(shape).bernoulli_(keep) / keep


class ViViTBlock(nn.Module):
    def __init__(self, dim, num_heads, attn_drop, drop_path):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = ViViTAttention(dim, num_heads, attn_drop=attn_drop)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.path = DropPath(drop_path)

    def forward(self, x, key_ok=None):
        x = x + self.path(self.attn(self.norm1(x), key_ok))
        return x + self.path(self.mlp(self.norm2(x)))


class Stage(nn.Module):
    def __init__(self, dim, depth, heads, length, attn_drop, drop_path):
        super().__init__()
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, length + 1, dim) * 0.02)
        self.blocks = nn.ModuleList(ViViTBlock(dim, heads, attn_drop, drop_path) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, key_ok=None):
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1)
        x = x + self.pos[:, : x.shape[1]]
        if key_ok is not None:
            key_ok = F.pad(key_ok, (1, 0), value=True)
        for blk in self.blocks:
            x = blk(x, key_ok)
        return self.norm(x)[:, 0]


class FactorisedViViT(nn.Module):
    def __init__(self, frames=8, size=16, tubelet=(2, 4, 4), dim=48, heads=4, classes=5,
                 depth_space=2, depth_time=1, attn_drop=0.1, drop_path=0.05):
        super().__init__()
        self.embed = TubeletEmbed(dim, tubelet)
        n = (size // tubelet[1]) * (size // tubelet[2])
        self.space = Stage(dim, depth_space, heads, n, attn_drop, drop_path)
        self.time = Stage(dim, depth_time, heads, frames // tubelet[0], attn_drop, drop_path)
        self.head = nn.Linear(dim, classes)

    def forward(self, video, steps_ok=None):
        """steps_ok [B, t]: False for tubelets behind the end of a short film."""
        x = self.embed(video)
        b, t = x.shape[:2]
        x = self.space(x.flatten(0, 1)).view(b, t, -1)
        return self.head(self.time(x, steps_ok))


@torch.no_grad()
def accuracy(model, loader, device="cpu"):
    model.eval()
    hits = total = 0
    for video, label in loader:
        pred = model(video.to(device)).argmax(-1).cpu()
        hits += (pred == label).sum().item()
        total += len(label)
    return hits / max(total, 1)
