import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchEmbedding(nn.Module):
    def __init__(self, img_size=32, patch=8, in_c=3, feats=48):
        super().__init__()
        self.n = (img_size // patch) ** 2
        self.proj = nn.Conv2d(in_c, feats, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, feats))
        self.pos = nn.Parameter(torch.randn(1, self.n + 1, feats) * 0.02)

    def forward(self, img):
        x = self.proj(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1)
        return x + self.pos


class MultiHeadSelfAttention(nn.Module):
    """(b, n, f) -> (b, n, f), scaled dot-product attention with `head` heads."""

    def __init__(self, feats: int, head: int = 8, dropout: float = 0.0):
        super().__init__()
        self.head = head
        self.feats = feats
        self.sqrt_d = self.feats ** 0.5

        self.q = nn.Linear(feats, feats)
        self.k = nn.Linear(feats, feats)
        self.v = nn.Linear(feats, feats)
        self.o = nn.Linear(feats, feats)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, n, f = x.size()
        q = self.q(x).view(b, n, self.head, self.feats // self.head).transpose(1, 2)
        k = self.k(x).view(b, n, self.head, self.feats // self.head).transpose(1, 2)
        v = self.v(x).view(b, n, self.head, self.feats // self.head).transpose(1, 2)

        score = F.softmax(torch.einsum("bhif, bhjf->bhij", q, k) / self.sqrt_d, dim=-1)
        attn = torch.einsum("bhij, bhjf->bihf", score, v)
        return self.dropout(self.o(attn.flatten(2)))


class TransformerEncoder(nn.Module):
    def __init__(self, feats, mlp_hidden, head=8, dropout=0.0):
        super().__init__()
        self.la1 = nn.LayerNorm(feats)
        self.msa = MultiHeadSelfAttention(feats, head, dropout)
        self.la2 = nn.LayerNorm(feats)
        self.mlp = nn.Sequential(
            nn.Linear(feats, mlp_hidden), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(mlp_hidden, feats), nn.GELU(), nn.Dropout(dropout),
        )

    def forward(self, x):
        out = self.msa(self.la1(x)) + x
        return self.mlp(self.la2(out)) + out


class ViT(nn.Module):
    def __init__(self, num_classes=10, img_size=32, patch=8, feats=48, head=6, depth=2, dropout=0.0):
        super().__init__()
        self.embed = PatchEmbedding(img_size, patch, 3, feats)
        self.enc = nn.Sequential(*[TransformerEncoder(feats, feats * 2, head, dropout) for _ in range(depth)])
        self.fc = nn.Sequential(nn.LayerNorm(feats), nn.Linear(feats, num_classes))

    def forward(self, x):
        return self.fc(self.enc(self.embed(x))[:, 0])
