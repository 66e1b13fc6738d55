"""
Action chunking transformer for the bimanual arm (DETR-style, borrowed from ACT).

Everything in this file is sequence first: (length, batch, dim). Images come in as
(batch, channels, h, w) and are flattened to (h*w, batch, channels).
key_padding_mask / is_pad: (batch, length), True where the entry is padding.
"""
import copy
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn, Tensor


def _with_pos(t: Tensor, pos: Optional[Tensor]) -> Tensor:
    return t if pos is None else t + pos


def _clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


class SceneEncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, d_ff=512, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, pos=None, key_padding_mask=None):
        q = k = _with_pos(src, pos)
        src2 = self.self_attn(q, k, value=src, key_padding_mask=key_padding_mask)[0]
        src = self.norm1(src + self.dropout(src2))
        src2 = self.linear2(self.dropout(F.relu(self.linear1(src))))
        return self.norm2(src + self.dropout(src2))


class ActionDecoderLayer(nn.Module):
    """tgt: (chunk, batch, dim), memory: (tokens, batch, dim)"""

    def __init__(self, d_model, nhead, d_ff=512, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tgt, memory, memory_key_padding_mask=None, pos=None, query_pos=None):
        q = k = _with_pos(tgt, query_pos)
        tgt2 = self.self_attn(q, k, value=tgt)[0]
        tgt = self.norm1(tgt + self.dropout(tgt2))
        tgt2 = self.cross_attn(query=_with_pos(tgt, query_pos), key=_with_pos(memory, pos), value=memory,
                               key_padding_mask=memory_key_padding_mask)[0]
        tgt = self.norm2(tgt + self.dropout(tgt2))
        tgt2 = self.linear2(self.dropout(F.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.dropout(tgt2))


class ActionChunkTransformer(nn.Module):
    def __init__(self, d_model=64, nhead=4, enc_layers=2, dec_layers=2, chunk=20, joints=14, img_channels=32,
                 dropout=0.1):
        super().__init__()
        self.img_proj = nn.Conv2d(img_channels, d_model, 1)
        self.qpos_proj = nn.Linear(joints, d_model)
        self.latent_proj = nn.Linear(32, d_model)
        self.extra_pos = nn.Embedding(2, d_model)
        self.query_embed = nn.Embedding(chunk, d_model)
        self.encoder = _clones(SceneEncoderLayer(d_model, nhead, dropout=dropout), enc_layers)
        self.decoder = _clones(ActionDecoderLayer(d_model, nhead, dropout=dropout), dec_layers)
        self.action_head = nn.Linear(d_model, joints)
        self.pad_head = nn.Linear(d_model, 1)

    def forward(self, img_feat, img_pos, qpos, latent, cam_missing=None):
        """img_pos: (1, d_model, h, w); cam_missing: (batch, h*w) True where the camera dropped out."""
        bs = img_feat.shape[0]
        src = self.img_proj(img_feat).flatten(2).permute(2, 0, 1)
        pos = img_pos.flatten(2).permute(2, 0, 1).repeat(1, bs, 1)
        extra = torch.stack([self.latent_proj(latent), self.qpos_proj(qpos)], dim=0)
        extra_pos = self.extra_pos.weight.unsqueeze(1).repeat(1, bs, 1)
        src = torch.cat([extra, src], dim=0)
        pos = torch.cat([extra_pos, pos], dim=0)

        is_pad = None
        if cam_missing is not None:
            is_pad = torch.cat([cam_missing.new_zeros(bs, 2), cam_missing], dim=1)

        memory = src
        for layer in self.encoder:
            memory = layer(memory, pos=pos, key_padding_mask=is_pad)

        query_pos = self.query_embed.weight.unsqueeze(1).repeat(1, bs, 1)
        hs = torch.zeros_like(query_pos)
        for layer in self.decoder:
            hs = layer(hs, memory, memory_key_padding_mask=is_pad, pos=pos, query_pos=query_pos)
        hs = hs.transpose(0, 1)
        return self.action_head(hs), self.pad_head(hs)
