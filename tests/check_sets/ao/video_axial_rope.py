"""Sign language recognition from pose keypoints: temporal attention with rotary time stamps.

Clips have different frame rates, hence the rotary angle is made from real time in seconds
and the score between two frames depends only on how far apart they are in time.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def time_angles(t, dim, fastest=8.0):
    """t [B, T] in seconds -> [B, T, dim/2]"""
    n = dim // 2
    rate = fastest * 0.05 ** (torch.arange(n, device=t.device, dtype=t.dtype) / n)
    return t[..., None] * rate


def spin(x, ang):
    # x [B, H, T, d], pairs are (first half, second half)
    ang = ang[:, None]
    c, s = ang.cos(), ang.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, a * s + b * c], dim=-1)


class FrameAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, seconds, n_frames):
        """x [B, T, dim]; seconds [B, T] time stamps; n_frames list of real clip lengths"""
        B, T, D = x.shape
        sh = lambda z: z.view(B, T, self.heads, -1).transpose(1, 2)
        q, k, v = sh(self.q(x)), sh(self.k(x)), sh(self.v(x))
        ang = time_angles(seconds, q.size(-1))
        q = spin(q, ang)
        k = spin(k, -ang)
        real = torch.zeros(B, T, dtype=torch.bool, device=x.device)
        for i, n in enumerate(n_frames):
            real[i, :n] = True
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=real[:, None, None, :])
        return self.o(y.transpose(1, 2).reshape(B, T, D))


class PoseEmbed(nn.Module):
    def __init__(self, joints, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(joints * 3, dim), nn.GELU(), nn.Linear(dim, dim))

    def forward(self, pose):
        # centre on the neck (joint 1), scale by shoulder width (joints 2 and 5)
        centre = pose[:, :, 1:2]
        width = (pose[:, :, 2] - pose[:, :, 5]).norm(dim=-1).clamp(min=1e-3)
        p = (pose - centre) / width[:, :, None, None]
        return self.net(p.flatten(2))


class SignNet(nn.Module):
    def __init__(self, joints=27, dim=96, heads=4, depth=3, signs=226):
        super().__init__()
        self.embed = PoseEmbed(joints, dim)
        self.att = nn.ModuleList(FrameAttention(dim, heads) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim)) for _ in range(depth))
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth))
        self.head = nn.Linear(dim, signs)

    def forward(self, pose, seconds, n_frames):
        x = self.embed(pose)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.n[2 * i](x), seconds, n_frames)
            x = x + f(self.n[2 * i + 1](x))
        return self.head(torch.stack([x[i, :n].mean(0) for i, n in enumerate(n_frames)]))
