"""Fuses the tactile history with camera tokens and predicts grasp stability."""
import torch
import torch.nn as nn


class GraspFusion(nn.Module):
    """
    tactile: (batch, time, tactile_dim) readings of the last second
    camera:  (batch, tokens, camera_dim) tokens of the frozen vision backbone

    The tactile readings query the camera tokens of their own grasp, then a
    small head looks at the mean over time. Grasps of a batch are independent.
    """

    def __init__(self, tactile_dim=12, camera_dim=20, dim=32, heads=4):
        super().__init__()
        self.tactile_in = nn.Linear(tactile_dim, dim)
        self.camera_in = nn.Linear(camera_dim, dim)
        self.touch = nn.GRU(dim, dim, batch_first=True)
        self.self_attn = nn.MultiheadAttention(dim, heads)
        self.cross_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, tactile, camera):
        t, _ = self.touch(self.tactile_in(tactile))
        c = self.camera_in(camera)
        t = self.norm1(t + self.self_attn(t, t, t, need_weights=False)[0])
        t = self.norm2(t + self.cross_attn(t, c, c, need_weights=False)[0])
        return self.head(t.mean(dim=1)).squeeze(-1)
