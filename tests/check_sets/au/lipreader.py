"""Audio-visual lip reading: audio frames look at mouth crops (cross-attention fusion)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def crop_mouth(frames, boxes, size=32):
    """frames [T, 1, H, W], boxes [T, 4] (x0, y0, x1, y1) in pixels."""
    out = []
    for f, (x0, y0, x1, y1) in zip(frames, boxes.long().tolist()):
        out.append(F.interpolate(f[None, :, y0:y1, x0:x1], size=(size, size), mode="bilinear", align_corners=False)[0])
    return torch.stack(out)


class VisualFront(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c3 = nn.Conv3d(1, 16, (5, 7, 7), stride=(1, 2, 2), padding=(2, 3, 3))
        self.c2 = nn.Sequential(nn.ReLU(), nn.Conv2d(16, dim, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, v):
        """[B, T, 1, h, w] -> [B, T, dim]"""
        z = self.c3(v.transpose(1, 2)).transpose(1, 2)
        B, T = z.shape[:2]
        return self.c2(z.flatten(0, 1)).view(B, T, -1)


class CrossFusion(nn.Module):
    """q from audio [B, Ta, dim], k/v from video [B, Tv, dim]; returns [B, Ta, dim]."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dk = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def fold(self, x):
        B, T, _ = x.shape
        x = x.view(B, T, self.heads, self.dk).permute(0, 2, 1, 3)
        return x.reshape(B * self.heads, T, self.dk)

    def unfold(self, x, B):
        T = x.shape[1]
        x = x.view(self.heads, B, T, self.dk).permute(1, 2, 0, 3)
        return x.reshape(B, T, self.heads * self.dk)

    def forward(self, audio, video):
        B = audio.shape[0]
        k, v = self.kv(video).chunk(2, -1)
        q, k, v = self.fold(self.q(audio)), self.fold(k), self.fold(v)
        a = torch.baddbmm(torch.zeros((), dtype=q.dtype), q, k.transpose(1, 2), beta=0, alpha=self.dk ** -0.5)
        y = torch.bmm(F.softmax(a, dim=-1), v)
        return self.out(self.unfold(y, B))


class LipReader(nn.Module):
    def __init__(self, n_mels=40, dim=64, heads=4, chars=30):
        super().__init__()
        self.aud = nn.Sequential(nn.Conv1d(n_mels, dim, 5, padding=2, stride=2), nn.ReLU())
        self.vis = VisualFront(dim)
        self.fuse = CrossFusion(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.ctc = nn.Linear(2 * dim, chars)

    def forward(self, mels, mouths):
        a = self.aud(mels).transpose(1, 2)
        a = self.norm(a + self.fuse(a, self.vis(mouths)))
        return self.ctc(self.rnn(a)[0]).log_softmax(-1)
