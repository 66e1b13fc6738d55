"""Herbarium sheets: ViT trunk that runs timm checkpoints without timm.

Only what the collection scanner needs: attention blocks, loading of the state
dict, feature extraction. timm's fused projection is `qkv.weight` [3*D, D] with the
rows ordered q, k, v and each of these ordered by head.
"""
import re
from collections import OrderedDict

import torch
from torch import nn

SHEET_MM = (297, 420)
RANKS = ["family", "genus", "species"]


class Attention(nn.Module):
    """same parameters and same result as timm.models.vision_transformer.Attention

    x [B, N, D] -> [B, N, D]; bidirectional, no mask.
    """

    def __init__(self, dim, num_heads=6, qkv_bias=True):
        super().__init__()
        assert dim % num_heads == 0
        self.num_heads = num_heads
        self.scale = num_heads ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        qkv = self.qkv(x).reshape(B, N, self.num_heads, 3, D // self.num_heads)
        q, k, v = qkv.permute(3, 0, 2, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, D)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        hidden = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(OrderedDict(fc1=nn.Linear(dim, hidden), act=nn.GELU(), fc2=nn.Linear(hidden, dim)))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SheetEncoder(nn.Module):
    def __init__(self, img=64, patch=16, dim=48, depth=3, num_heads=6):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, (img // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)[:, 0]

    def load_timm(self, state):
        """drops the classifier, renames the patch embedding"""
        new = OrderedDict()
        for name, t in state.items():
            if re.match(r"(head|fc_norm|pre_logits)\.", name):
                continue
            new[name.replace("patch_embed.proj", "patch_embed")] = t
        missing, unexpected = self.load_state_dict(new, strict=False)
        if missing or unexpected:
            raise KeyError(f"missing {missing}, unexpected {unexpected}")
        return self


class RankHeads(nn.Module):
    def __init__(self, dim, sizes=(40, 120, 300)):
        super().__init__()
        self.heads = nn.ModuleDict({r: nn.Linear(dim, n) for r, n in zip(RANKS, sizes)})

    def forward(self, f):
        return {r: h(f) for r, h in self.heads.items()}


if __name__ == "__main__":
    trunk = SheetEncoder().eval()
    out = RankHeads(48)(trunk(torch.rand(2, 3, 64, 64)))
    print({r: o.shape for r, o in out.items()})
