"""Vector attention between the k nearest points of a cloud (Point Transformer style).

    xyz    (B, N, 3)  coordinates
    feat   (B, N, C)  features
    out    (B, N, C)

For point i and its k nearest neighbours j in the same cloud (i itself is one of them):

    delta = pos_mlp(xyz_i - xyz_j)
    a     = softmax over the k neighbours, channel by channel, of
            attn_mlp( q_i - k_j + delta ) / sqrt(C)
    out_i = feat_i + proj( sum_j a * (v_j + delta) )

Clouds of a batch are independent of each other.
"""
import torch
from torch import nn


def mlp(a, b, c):
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c))


class PointAttention(nn.Module):
    def __init__(self, c=16, k=4):
        super().__init__()
        self.k = k
        self.q, self.key, self.val = (nn.Linear(c, c, bias=False) for _ in range(3))
        self.pos_mlp = mlp(3, c, c)
        self.attn_mlp = mlp(c, c, c)
        self.proj = nn.Linear(c, c)

    def forward(self, xyz, feat):
        B, N, C = feat.shape
        near = torch.cdist(xyz, xyz).topk(self.k, dim=-1, largest=False).indices   # B, N, k
        offset = torch.arange(B, device=xyz.device).view(B, 1, 1) * N
        rows = near + offset

        xyz_j = xyz.reshape(-1, 3)[rows]
        k_j = self.key(feat).reshape(-1, C)[rows]
        v_j = self.val(feat).reshape(-1, C)[near]

        delta = self.pos_mlp(xyz.unsqueeze(2) - xyz_j)
        z = self.attn_mlp(self.q(feat).unsqueeze(2) - k_j + delta) / C ** 0.5
        a = z.softmax(dim=2)
        return feat + self.proj((a * (v_j + delta)).sum(dim=2))
