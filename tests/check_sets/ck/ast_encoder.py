"""Audio Spectrogram Transformer (Gong et al. 2021), tiny version for keyword spotting."""
import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=2):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim)
        )

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return x


class ASTEncoder(nn.Module):
    """
    spec (B, n_mels, frames) -> (B, dim)

    16x16-like patches without overlap, a cls token, all patches of a clip look at each other.
    """

    def __init__(self, n_mels=16, frames=32, patch=8, dim=32, depth=2, num_heads=4):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, patch, stride=patch)
        n = (n_mels // patch) * (frames // patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, n + 1, dim))
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        self.blocks = nn.ModuleList([EncoderBlock(dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, spec):
        x = self.patch(spec.unsqueeze(1))
        x = x.flatten(2).transpose(1, 2)                     # B, N, dim
        x = torch.cat((self.cls_token.expand(x.size(0), -1, -1), x), dim=1)
        x = x + self.pos_embed
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)[:, 0]
