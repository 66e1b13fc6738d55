"""DETR-style decoder. As in the original, tensors are length first: (queries, batch, dim) and (hw, batch, dim)."""
import copy
import torch
from torch import nn, Tensor
from typing import Optional


def with_pos(t: Tensor, pos: Optional[Tensor]):
    return t if pos is None else t + pos


class DecoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_ff=128, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_ff), nn.Linear(dim_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, tgt, memory, memory_pad=None, pos=None, query_pos=None):
        q = k = with_pos(tgt, query_pos)
        t2 = self.self_attn(q, k, value=tgt)[0]
        tgt = self.norm1(tgt + self.drop(t2))
        # positions go into queries and keys only, never into the values
        t2, w = self.multihead_attn(query=with_pos(tgt, query_pos), key=with_pos(memory, pos),
                                    value=memory, key_padding_mask=memory_pad)
        tgt = self.norm2(tgt + self.drop(t2))
        t2 = self.linear2(self.drop(torch.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.drop(t2)), w


class DetrHead(nn.Module):
    def __init__(self, in_ch=16, d_model=32, nhead=4, layers=2, n_queries=7, n_classes=10):
        super().__init__()
        self.input_proj = nn.Conv2d(in_ch, d_model, 1)
        self.row_embed = nn.Parameter(torch.rand(50, d_model // 2))
        self.col_embed = nn.Parameter(torch.rand(50, d_model // 2))
        self.query_embed = nn.Embedding(n_queries, d_model)
        layer = DecoderLayer(d_model, nhead)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(layers)])
        self.norm = nn.LayerNorm(d_model)
        self.cls = nn.Linear(d_model, n_classes + 1)
        self.box = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 4))

    def forward(self, feat: Tensor, pixel_mask: Tensor):
        """feat (B, C, H, W), pixel_mask (B, H, W) with 1 on image pixels and 0 on padding."""
        src = self.input_proj(feat)
        B, C, H, W = src.shape
        pos = torch.cat([
            self.col_embed[:W].unsqueeze(0).repeat(H, 1, 1),
            self.row_embed[:H].unsqueeze(1).repeat(1, W, 1),
        ], dim=-1).flatten(0, 1).unsqueeze(1)                 # hw, 1, C
        src = src.flatten(2).permute(2, 0, 1)                 # hw, B, C
        pad = ~pixel_mask.flatten(1).bool()
        query_pos = self.query_embed.weight.unsqueeze(1).expand(-1, B, -1)
        tgt = torch.zeros_like(query_pos)
        for layer in self.layers:
            tgt, attn = layer(tgt, src, pad, pos, query_pos)
        hs = self.norm(tgt).transpose(0, 1)                   # B, queries, C
        return {"logits": self.cls(hs), "boxes": self.box(hs).sigmoid(), "attn": attn.view(B, -1, H, W)}
