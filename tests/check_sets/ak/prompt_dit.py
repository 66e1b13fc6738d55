"""Diffusion transformer over latent patches; the prompt enters by cross-attention."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def extended_prompt_mask(tokens_kept, dtype):
    """tokens_kept [B, S] with 1 for words and 0 for padding -> additive mask [B, 1, 1, S].

    0.0 for words, a very large negative number for padding, to be added to the scores.
    """
    inverted = 1.0 - tokens_kept[:, None, None, :].to(dtype)
    return inverted * torch.finfo(dtype).min


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class PatchSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, c))


class PromptCrossAttention(nn.Module):
    """Patches read the prompt. `prompt_mask` is the additive mask of `extended_prompt_mask`."""

    def __init__(self, dim, prompt_dim, heads):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(dim, dim)
        self.kv_linear = nn.Linear(prompt_dim, dim * 2)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, prompt, prompt_mask=None):
        b, n, c = x.shape
        s = prompt.shape[1]
        q = self.q_linear(x).view(b, n, self.heads, c // self.heads).transpose(1, 2)
        k, v = self.kv_linear(prompt).view(b, s, 2, self.heads, c // self.heads).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        if prompt_mask is not None:
            prompt_mask = prompt_mask.to(torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=prompt_mask)
        return self.proj(y.transpose(1, 2).reshape(b, n, c))


class DiTBlock(nn.Module):
    def __init__(self, dim, prompt_dim, heads, mlp_ratio=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.attn = PatchSelfAttention(dim, heads)
        self.cross = PromptCrossAttention(dim, prompt_dim, heads)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_ratio * dim), nn.GELU(approximate="tanh"),
                                 nn.Linear(mlp_ratio * dim, dim))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))

    def forward(self, x, t_emb, prompt, prompt_mask):
        s1, g1, a1, s2, g2, a2 = self.ada(t_emb).chunk(6, dim=1)
        x = x + a1.unsqueeze(1) * self.attn(modulate(self.norm1(x), s1, g1))
        x = x + self.cross(x, prompt, prompt_mask)
        return x + a2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, g2))


class PromptDiT(nn.Module):
    def __init__(self, latent=4, size=16, patch=2, dim=64, prompt_dim=32, heads=4, depth=2):
        super().__init__()
        self.patch, self.latent, self.dim = patch, latent, dim
        self.x_embed = nn.Conv2d(latent, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2, dim) * 0.02)
        self.t_mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(DiTBlock(dim, prompt_dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.out = nn.Linear(dim, patch * patch * latent)

    def unpatchify(self, x, h, w):
        b, p = x.shape[0], self.patch
        x = x.view(b, h, w, p, p, self.latent).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(b, self.latent, h * p, w * p)

    def forward(self, x, t, prompt, tokens_kept=None):
        x = self.x_embed(x)
        h, w = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2) + self.pos
        t_emb = self.t_mlp(timestep_embedding(t, self.dim))
        mask = None if tokens_kept is None else extended_prompt_mask(tokens_kept, x.dtype)
        for blk in self.blocks:
            x = blk(x, t_emb, prompt, mask)
        return self.unpatchify(self.out(self.norm(x)), h, w)
