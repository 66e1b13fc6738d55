"""Action chunking policy for the SO-100 arm: a small DETR-like decoder that turns
camera tokens and joint readings into a chunk of actions.

obs = {"image": [B, cams, 3, H, W], "joints": [B, J], "cam_ok": bool [B, cams]}
cam_ok is False when a frame was dropped; its tokens must not be read.
"""
import torch
from torch import nn
import torch.nn.functional as F


class TinyBackbone(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, 4, 2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(32, dim, 3, 2, 1))

    def forward(self, img):
        return self.net(img).flatten(2).transpose(1, 2)


class CrossRead(nn.Module):
    """slots read tokens. readable: bool [B, S], True = the slot may look at this token"""

    def __init__(self, dim, heads, p=0.0):
        super().__init__()
        self.heads, self.p = heads, p
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, dim * 2, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, slots, tokens, readable=None):
        q = self.to_q(slots).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.to_kv(tokens).chunk(2, -1)
        k = k.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        v = v.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        bias = None if readable is None else readable[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias,
                                           dropout_p=self.p if self.training else 0.0)
        return self.to_out(y.transpose(1, 2).flatten(2))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.mixer, self.reader = CrossRead(dim, heads, p), CrossRead(dim, heads, p)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, s, tok, readable):
        h = self.norms[0](s)
        s = s + self.mixer(h, h)
        s = s + self.reader(self.norms[1](s), tok, readable)
        return s + self.ff(self.norms[2](s))


class ChunkPolicy(nn.Module):
    def __init__(self, joints=6, dim=64, heads=4, chunk=20, layers=2, p=0.1):
        super().__init__()
        self.cam = TinyBackbone(dim)
        self.joint = nn.Linear(joints, dim)
        self.slots = nn.Parameter(torch.randn(chunk, dim) * 0.02)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, p) for _ in range(layers))
        self.act = nn.Linear(dim, joints)

    def forward(self, obs):
        img = obs["image"]
        B, C = img.shape[:2]
        t = self.cam(img.flatten(0, 1))
        per_cam = t.shape[1]
        t = t.reshape(B, C * per_cam, -1)
        tok = torch.cat([self.joint(obs["joints"])[:, None], t], 1)
        ok = obs["cam_ok"].repeat_interleave(per_cam, dim=1)
        ok = torch.cat([ok.new_ones(B, 1), ok], 1)
        s = self.slots.expand(B, -1, -1)
        for l in self.layers:
            s = l(s, tok, ok)
        return self.act(s)


class TemporalEnsemble:
    """exponentially weighted mean of overlapping chunks, oldest prediction weighs most"""

    def __init__(self, m=0.01):
        self.m, self.chunks = m, []

    def __call__(self, chunk):
        self.chunks = [c[1:] for c in self.chunks if len(c) > 1] + [chunk]
        w = torch.exp(-self.m * torch.arange(len(self.chunks)))
        a = torch.stack([c[0] for c in self.chunks])
        return (w[:, None] * a).sum(0) / w.sum()
