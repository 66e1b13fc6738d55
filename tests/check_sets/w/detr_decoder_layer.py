from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn, Tensor


class TransformerDecoderLayer(nn.Module):
    """DETR decoder layer, post-norm. All tensors are sequence first: (len, batch, channel)."""

    def __init__(self, d_model=64, nhead=4, dim_feedforward=128, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def with_pos_embed(self, tensor, pos: Optional[Tensor]):
        return tensor if pos is None else tensor + pos

    def forward(self, tgt: Tensor, memory: Tensor,
                memory_key_padding_mask: Optional[Tensor] = None,
                pos: Optional[Tensor] = None,
                query_pos: Optional[Tensor] = None):
        q = k = self.with_pos_embed(tgt, query_pos)
        tgt2 = self.self_attn(q, k, value=tgt)[0]
        tgt = self.norm1(tgt + self.dropout(tgt2))
        tgt2 = self.multihead_attn(query=self.with_pos_embed(tgt, query_pos),
                                   key=self.with_pos_embed(memory, pos),
                                   value=memory, key_padding_mask=memory_key_padding_mask)[0]
        tgt = self.norm2(tgt + self.dropout(tgt2))
        tgt2 = self.linear2(self.dropout(F.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.dropout(tgt2))


class DetrHead(nn.Module):
    def __init__(self, d_model=64, nhead=4, num_queries=10, num_classes=20, num_layers=2):
        super().__init__()
        self.query_embed = nn.Embedding(num_queries, d_model)
        self.layers = nn.ModuleList([TransformerDecoderLayer(d_model, nhead) for _ in range(num_layers)])
        self.class_embed = nn.Linear(d_model, num_classes + 1)
        self.bbox_embed = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 4))

    def forward(self, features: Tensor, mask: Tensor, pos_embed: Tensor):
        """
        features:  (batch, d_model, h, w)
        mask:      (batch, h, w), True on padded pixels
        pos_embed: (batch, d_model, h, w)
        """
        bs = features.shape[0]
        memory = features.flatten(2).permute(2, 0, 1)
        pos = pos_embed.flatten(2).permute(2, 0, 1)
        mask = mask.flatten(1)
        query_pos = self.query_embed.weight.unsqueeze(1).repeat(1, bs, 1)
        out = torch.zeros_like(query_pos)
        for layer in self.layers:
            out = layer(out, memory, memory_key_padding_mask=mask, pos=pos, query_pos=query_pos)
        hs = out.transpose(0, 1)
        return {"pred_logits": self.class_embed(hs), "pred_boxes": self.bbox_embed(hs).sigmoid()}
