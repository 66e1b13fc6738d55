"""Grasp proposals from camera tokens: DETR-like decoder used on our two-arm robot."""
import torch
from torch import nn


class DecoderStep(nn.Module):
    def __init__(self, d, h, p):
        super().__init__()
        self.talk = nn.MultiheadAttention(d, h, dropout=p, batch_first=True)
        self.look = nn.MultiheadAttention(d, h, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, slot, cam, cam_pos, unseen):
        a = x + slot
        x = self.n1(x + self.talk(a, a, x, need_weights=False)[0])
        b, w = self.look(x + slot, cam + cam_pos, cam, key_padding_mask=unseen)
        x = self.n2(x + b)
        return self.n3(x + self.ff(x)), w


class GraspPolicy(nn.Module):
    """cam [B, P, d], cam_pos [B, P, d], visible [B, P] bool (True where the patch was seen;
    at least one patch per sample). Returns (grasps [B, n, 7], heat [B, n, P]); heat is the
    last layer's mean attention and sums to one over the patches."""

    def __init__(self, d=32, heads=4, layers=2, n=5, p=0.1):
        super().__init__()
        self.slot = nn.Embedding(n, d)
        self.steps = nn.ModuleList(DecoderStep(d, heads, p) for _ in range(layers))
        self.head = nn.Linear(d, 7)

    @torch.no_grad()
    def act(self, cam, cam_pos, visible):
        was = self.training
        self.eval()
        out = self(cam, cam_pos, visible)
        self.train(was)
        return out

    def forward(self, cam, cam_pos, visible):
        slot = self.slot.weight.unsqueeze(0).expand(cam.shape[0], -1, -1)
        x = torch.zeros_like(slot)
        unseen = visible.logical_not()
        for step in self.steps:
            x, heat = step(x, slot, cam, cam_pos, unseen)
        return self.head(x), heat
