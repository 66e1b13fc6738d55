"""Grasp scoring from a point cloud: gripper poses look at scene points.

Clouds have different numbers of points.  They are padded to the longest of the batch, and
``empty`` [B, P] is True for the padding.  Heads are folded into the batch for torch.bmm.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def collate(clouds):
    """list of [n_i, 3 + c] -> [B, P, 3 + c], empty [B, P]"""
    longest = max(len(c) for c in clouds)
    out = clouds[0].new_zeros(len(clouds), longest, clouds[0].size(1))
    empty = torch.ones(len(clouds), longest, dtype=torch.bool)
    for i, c in enumerate(clouds):
        out[i, : len(c)] = c
        empty[i, : len(c)] = False
    return out, empty


class PoseToSceneAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.hd = heads, dim // heads
        self.fc_q = nn.Linear(dim, dim)
        self.fc_k = nn.Linear(dim, dim)
        self.fc_v = nn.Linear(dim, dim)
        self.fc_o = nn.Linear(dim, dim)

    def fold(self, x):
        """[B, L, dim] -> [B * heads, L, hd]"""
        b, l, _ = x.shape
        x = x.view(b, l, self.heads, self.hd).permute(0, 2, 1, 3)
        return x.reshape(b * self.heads, l, self.hd)

    def unfold(self, x):
        bh, l, _ = x.shape
        x = x.view(bh // self.heads, self.heads, l, self.hd).permute(0, 2, 1, 3)
        return x.reshape(bh // self.heads, l, self.heads * self.hd)

    def forward(self, poses, points, empty=None):
        """poses [B, G, dim], points [B, P, dim]"""
        q, k, v = self.fold(self.fc_q(poses)), self.fold(self.fc_k(points)), self.fold(self.fc_v(points))
        scores = torch.bmm(q, k.transpose(1, 2)) * self.hd ** -0.5
        if empty is not None:
            drop = empty[:, None, :].expand(-1, poses.size(1), -1)
            drop = drop.repeat(self.heads, 1, 1)
            scores = scores.masked_fill(drop, torch.finfo(scores.dtype).min)
        w = F.softmax(scores, dim=2)
        return self.fc_o(self.unfold(torch.bmm(w, v)))


class FourierXYZ(nn.Module):
    def __init__(self, dim, bands=6):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(bands) * torch.pi)
        self.fc = nn.Linear(3 + 6 * bands, dim)

    def forward(self, xyz):
        a = (xyz[..., None] * self.freq).flatten(-2)
        return self.fc(torch.cat([xyz, a.sin(), a.cos()], dim=-1))


class GraspLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = PoseToSceneAttention(dim, heads)
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, poses, points, empty):
        poses = poses + self.att(self.n1(poses), self.n2(points), empty)
        return poses + self.ff(self.n3(poses))


class GraspScorer(nn.Module):
    """Quality in [0, 1] and jaw width for every candidate pose (xyz + quaternion)."""

    def __init__(self, dim=64, heads=4, depth=2, colour=3):
        super().__init__()
        self.where = FourierXYZ(dim)
        self.colour = nn.Linear(colour, dim)
        self.rot = nn.Linear(4, dim)
        self.layers = nn.ModuleList(GraspLayer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, 2)

    def forward(self, cloud, poses, empty=None):
        pts = self.where(cloud[..., :3]) + self.colour(cloud[..., 3:])
        quat = F.normalize(poses[..., 3:], dim=-1)
        quat = torch.where(quat[..., :1] < 0, -quat, quat)
        x = self.where(poses[..., :3]) + self.rot(quat)
        for layer in self.layers:
            x = layer(x, pts, empty)
        quality, width = self.head(x).unbind(-1)
        return quality.sigmoid(), F.softplus(width)

    @torch.no_grad()
    def best(self, cloud, poses, empty=None, reach=0.8):
        quality, width = self(cloud, poses, empty)
        far = poses[..., :3].norm(dim=-1) > reach
        i = quality.masked_fill(far, -1.0).argmax(dim=1)
        rows = torch.arange(len(i))
        return poses[rows, i], width[rows, i]
