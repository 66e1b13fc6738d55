import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, emb_size, num_heads):
        super().__init__()
        self.emb_size = emb_size
        self.num_heads = num_heads
        self.keys = nn.Linear(emb_size, emb_size)
        self.queries = nn.Linear(emb_size, emb_size)
        self.values = nn.Linear(emb_size, emb_size)
        self.projection = nn.Linear(emb_size, emb_size)

    def forward(self, x):
        b, n, e = x.shape
        h = self.num_heads
        queries = self.queries(x).view(b, n, h, e // h).transpose(1, 2)
        keys = self.keys(x).view(b, n, h, e // h).transpose(1, 2)
        values = self.values(x).view(b, n, h, e // h).transpose(1, 2)
        energy = torch.einsum("bhqd, bhkd -> bhqk", queries, keys)
        scaling = self.emb_size ** 0.5
        att = torch.softmax(energy / scaling, dim=-1)
        out = torch.einsum("bhal, bhlv -> bhav", att, values)
        out = out.reshape(b, n, e)
        return self.projection(out)


class ViT(nn.Module):
    """Images (B, 3, 8, 8) -> logits (B, n_classes)."""

    def __init__(self, patch_size=4, emb_size=12, num_heads=3, depth=2, n_classes=5, img_size=8):
        super().__init__()
        self.patch = nn.Conv2d(3, emb_size, patch_size, patch_size)
        self.cls_token = nn.Parameter(torch.randn(1, 1, emb_size))
        self.positions = nn.Parameter(torch.randn((img_size // patch_size) ** 2 + 1, emb_size))
        self.norms = nn.ModuleList([nn.LayerNorm(emb_size) for _ in range(depth)])
        self.blocks = nn.ModuleList([Attention(emb_size, num_heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(emb_size), nn.Linear(emb_size, n_classes))

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return self.head(x[:, 0])
