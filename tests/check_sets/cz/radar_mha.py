import torch
from torch import nn


def patchify(img, p):
    B, C, H, W = img.shape
    x = img.unfold(2, p, p).unfold(3, p, p)
    return x.permute(0, 2, 3, 1, 4, 5).reshape(B, (H // p) * (W // p), C * p * p)


class RadarNow(nn.Module):
    """Nowcast encoder: radar frame (B, C, H, W) -> patch features (B, N, D).

    The patches of one frame attend to each other.
    """

    def __init__(self, C=2, p=4, D=16, heads=2, n_patches=16):
        super().__init__()
        self.p = p
        self.embed = nn.Linear(C * p * p, D)
        self.place = nn.Parameter(torch.randn(n_patches, D) * 0.02)
        self.norm = nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, heads)
        self.head = nn.Linear(D, D)

    def forward(self, frame):
        x = self.embed(patchify(frame, self.p))
        x = x + self.place[: x.size(1)]
        y = self.norm(x)
        y, _ = self.attn(y, y, y, need_weights=False)
        return self.head(x + y)
