import torch
from torch import nn


class GestureFusion(nn.Module):
    """Joint encoder for wrist IMU and video features of one gesture.

    imu   (B, Ti, 6)
    video (B, Tv, 512)
    ->    (B, n_classes)

    Both streams are projected, tagged by modality and put behind a class token into
    one sequence (B, 1 + Ti + Tv, dim), over which self-attention runs.
    """

    def __init__(self, n_classes=8, dim=32, heads=4):
        super().__init__()
        self.imu_in = nn.Linear(6, dim)
        self.vid_in = nn.Linear(512, dim)
        self.tag = nn.Parameter(torch.randn(2, dim) * 0.1)
        self.cls = nn.Parameter(torch.randn(dim) * 0.1)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.joint = nn.MultiheadAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, n_classes)

    def forward(self, imu, video):
        B = imu.shape[0]
        seq = torch.cat([
            self.cls.expand(B, 1, -1),
            self.imu_in(imu) + self.tag[0],
            self.vid_in(video) + self.tag[1],
        ], dim=1)
        z = self.ln1(seq)
        seq = seq + self.joint(z, z, z, need_weights=False)[0]
        seq = seq + self.ff(self.ln2(seq))
        return self.head(seq[:, 0])
