import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchBlock(nn.Module):
    """Pre-norm ViT block over the patches of an image given as (B, C, H, W)."""

    def __init__(self, conf):
        super().__init__()
        self.patch = nn.Conv2d(conf["channels"], conf["width"], conf["patch"], stride=conf["patch"])
        self.heads = conf["heads"]
        self.ln1 = nn.LayerNorm(conf["width"])
        self.ln2 = nn.LayerNorm(conf["width"])
        self.qkv = nn.Linear(conf["width"], 3 * conf["width"])
        self.proj = nn.Linear(conf["width"], conf["width"])
        self.mlp = nn.Sequential(
            nn.Linear(conf["width"], 2 * conf["width"]), nn.GELU(), nn.Linear(2 * conf["width"], conf["width"]))

    def msa(self, x):
        B, N, D = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * (D // self.heads) ** -0.5
        out = torch.einsum("bhij,bhjd->bhid", F.softmax(dots, dim=-1), v)
        return self.proj(out.reshape(B, N, D))

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = x + self.msa(self.ln1(x))
        return x + self.mlp(self.ln2(x))


def build():
    return PatchBlock({"channels": 3, "width": 24, "patch": 4, "heads": 3})
