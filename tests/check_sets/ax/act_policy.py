#!/usr/bin/env python
"""Action chunking policy for the bimanual arm (transformer part only).

Everything inside the transformer is sequence first, [L, B, D], as
``nn.MultiheadAttention`` has it by default.  ``pad`` masks are [B, L], True = ignore.
"""
import copy
import math

import torch
from torch import nn


def with_pos(x, pos):
    return x if pos is None else x + pos


class ObsEncoderLayer(nn.Module):
    def __init__(self, d, nhead, ff, p):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, nhead, dropout=p)
        self.lin1, self.lin2 = nn.Linear(d, ff), nn.Linear(ff, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.drop = nn.Dropout(p)

    def forward(self, src, pos=None, pad=None):
        qk = with_pos(src, pos)
        a, _ = self.self_attn(qk, qk, value=src, key_padding_mask=pad, need_weights=False)
        src = self.norm1(src + self.drop(a))
        return self.norm2(src + self.drop(self.lin2(self.drop(torch.relu(self.lin1(src))))))


class ChunkDecoderLayer(nn.Module):
    """One slot per future action; slots see each other and the observation."""

    def __init__(self, d, nhead, ff, p):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, nhead, dropout=p)
        self.cross_attn = nn.MultiheadAttention(d, nhead, dropout=p)
        self.lin1, self.lin2 = nn.Linear(d, ff), nn.Linear(ff, d)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.drop = nn.Dropout(p)

    def forward(self, tgt, memory, query_pos, memory_pos=None, memory_pad=None):
        qk = with_pos(tgt, query_pos)
        a = self.self_attn(qk, qk, value=tgt, need_weights=False)[0]
        tgt = self.norm1(tgt + self.drop(a))
        a = self.cross_attn(query=with_pos(tgt, query_pos), key=with_pos(memory, memory_pos), value=memory,
                            key_padding_mask=memory_pad, need_weights=False)[0]
        tgt = self.norm2(tgt + self.drop(a))
        return self.norm3(tgt + self.drop(self.lin2(self.drop(torch.relu(self.lin1(tgt))))))


def sine_2d(h, w, d, temperature=10000.0):
    """[h*w, d] positions of an image feature map, half of d for rows, half for columns"""
    half = d // 2
    freq = temperature ** (-torch.arange(0, half, 2).float() / half)
    def one(n):
        a = torch.arange(n).float()[:, None] * freq
        return torch.stack([a.sin(), a.cos()], -1).flatten(1)
    rows = one(h)[:, None].expand(h, w, half)
    cols = one(w)[None].expand(h, w, half)
    return torch.cat([rows, cols], -1).reshape(h * w, d)


class ACTPolicy(nn.Module):
    """joints [B, J]; images [B, cams, C, h, w] feature maps; camera_off [B, cams] True = camera dropped out"""

    def __init__(self, joints=14, feat=64, chunk=20, d=64, nhead=4, ff=128, enc=2, dec=2, p=0.1, z=8):
        super().__init__()
        self.chunk, self.z, self.d = chunk, z, d
        self.joint_in, self.latent_in = nn.Linear(joints, d), nn.Linear(z, d)
        self.img_in = nn.Conv2d(feat, d, 1)
        self.extra_pos = nn.Embedding(2, d)
        self.query = nn.Embedding(chunk, d)
        self.encoder = nn.ModuleList(copy.deepcopy(ObsEncoderLayer(d, nhead, ff, p)) for _ in range(enc))
        self.decoder = nn.ModuleList(copy.deepcopy(ChunkDecoderLayer(d, nhead, ff, p)) for _ in range(dec))
        self.action = nn.Linear(d, joints)
        self._reset()

    def _reset(self):
        for par in self.parameters():
            if par.dim() > 1:
                nn.init.xavier_uniform_(par)

    def forward(self, joints, images, latent=None, camera_off=None):
        B, cams, _, h, w = images.shape
        if latent is None:
            latent = joints.new_zeros(B, self.z)
        img = self.img_in(images.flatten(0, 1)).flatten(2)                  # [B*cams, d, hw]
        img = img.view(B, cams, self.d, h * w).permute(1, 3, 0, 2).flatten(0, 1)
        src = torch.cat([torch.stack([self.latent_in(latent), self.joint_in(joints)]), img])
        pos_img = sine_2d(h, w, self.d).to(src).repeat(cams, 1)
        pos = torch.cat([self.extra_pos.weight, pos_img])[:, None]
        pad = None
        if camera_off is not None:
            pad = torch.cat([camera_off.new_zeros(B, 2), camera_off.repeat_interleave(h * w, dim=1)], dim=1)
        for layer in self.encoder:
            src = layer(src, pos, pad)
        qpos = self.query.weight[:, None].expand(-1, B, -1)
        tgt = torch.zeros_like(qpos)
        for layer in self.decoder:
            tgt = layer(tgt, src, qpos, pos, pad)
        return self.action(tgt).transpose(0, 1)


class TemporalEnsemble:
    """Average of the chunks that overlap at the present step, older ones weigh more."""

    def __init__(self, chunk, k=0.01):
        self.chunk, self.k, self.queue = chunk, k, []

    def step(self, actions):
        self.queue = [a[1:] for a in self.queue if len(a) > 1] + [actions]
        w = torch.tensor([math.exp(-self.k * i) for i in range(len(self.queue))])
        now = torch.stack([a[0] for a in self.queue])
        return (now * (w / w.sum())[:, None].to(now)).sum(0)
