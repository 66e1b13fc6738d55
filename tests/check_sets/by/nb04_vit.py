# %% [markdown]
"""Notebook 04, exported: a Vision Transformer for 28 x 28 digits.

Follows Dosovitskiy et al.: patches -> linear embedding, [CLS] in front,
learned positions, pre-norm encoder, classification from [CLS].
`model.encoder[i].attn.last_map` holds the last attention map for the plots.
"""
# %%
import torch
from torch import nn

# %%
class SelfAttention(nn.Module):
    def __init__(self, d, h, p=0.1):
        super().__init__()
        self.h, self.dk = h, d // h
        self.W = nn.ModuleDict({n: nn.Linear(d, d) for n in ("q", "k", "v", "o")})
        self.drop = nn.Dropout(p)
        self.last_map = None

    def forward(self, x):
        N, S, d = x.shape
        q, k, v = [
            self.W[n](x).reshape(N, S, self.h, self.dk).permute(0, 2, 1, 3) for n in "qkv"
        ]
        a = torch.einsum("nhid,nhjd->nhij", q, k).div(self.dk**0.5).softmax(dim=3)
        self.last_map = a.detach()
        y = torch.einsum("nhij,nhjd->nihd", self.drop(a), v)
        return self.W["o"](y.reshape(N, S, d))


# %%
class EncoderLayer(nn.Module):
    def __init__(self, d, h, p):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = SelfAttention(d, h, p)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(p))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ff(self.ln2(x))


# %%
class ViT(nn.Module):
    def __init__(self, image=28, patch=7, d=32, h=4, layers=2, classes=10, p=0.1):
        super().__init__()
        self.patch = patch
        n = (image // patch) ** 2
        self.embed = nn.Linear(patch * patch, d)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.randn(1, n + 1, d) * 0.02)
        self.encoder = nn.ModuleList(EncoderLayer(d, h, p) for _ in range(layers))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def patches(self, img):
        # (N, 1, 28, 28) -> (N, 16, 49)
        P = self.patch
        N = img.size(0)
        t = img.unfold(2, P, P).unfold(3, P, P)
        return t.reshape(N, -1, P * P)

    def forward(self, img):
        x = self.embed(self.patches(img))
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1) + self.pos
        for layer in self.encoder:
            x = layer(x)
        return self.head(self.ln(x)[:, 0])


# %%
if __name__ == "__main__":
    vit = ViT().eval()
    print(vit(torch.randn(3, 1, 28, 28)).shape, vit.encoder[0].attn.last_map.shape)
