"""Diabetic retinopathy grading: ViT trunk fine-tuned from timm checkpoints.

State-dict names and layouts are timm's (``attn.qkv.weight`` is [3 * H * D, C]: all of
q, then all of k, then all of v, heads inside), so ``load_state_dict`` just works.
"""
import torch
import torch.nn as nn


class Mlp(nn.Module):
    def __init__(self, dim, ratio=4):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim * ratio)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(dim * ratio, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Attention(nn.Module):
    """timm-compatible attention with two additions for fundus photographs.

    x         [B, N, C] patch tokens
    fov       [B, N] bool, True for patches inside the round field of view; the black
              corners are not read
    prior     [B, N, N] optional additive bias (vesselness prior), reused by all layers
    """

    def __init__(self, dim, num_heads=8, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = self.head_dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, fov=None, prior=None):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, self.num_heads, 3, self.head_dim)
        q, k, v = qkv.permute(3, 0, 2, 1, 4).unbind(0)
        if prior is None:
            prior = x.new_zeros(B, N, N)
        if fov is not None:
            prior = prior.masked_fill_(~fov[:, None, :], float("-inf"))
        attn = (q * self.scale) @ k.transpose(-2, -1) + prior[:, None]
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Block(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim)

    def forward(self, x, fov=None, prior=None):
        x = x + self.attn(self.norm1(x), fov, prior)
        return x + self.mlp(self.norm2(x))


class FundusViT(nn.Module):
    GRADES = 5

    def __init__(self, img=64, patch=16, dim=48, depth=2, heads=4):
        super().__init__()
        self.patch = patch
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.pos_embed = nn.Parameter(torch.zeros(1, (img // patch) ** 2, dim))
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, self.GRADES)

    def field_of_view(self, img, thr=0.03):
        lum = img.amax(1, keepdim=True)
        return nn.functional.max_pool2d(lum, self.patch).flatten(1) > thr

    def forward(self, img, prior=None):
        fov = self.field_of_view(img)
        x = self.patch_embed(img).flatten(2).transpose(1, 2) + self.pos_embed
        for blk in self.blocks:
            x = blk(x, fov, prior)
        return self.head(self.norm(x).mean(1))
