"""BERT-style encoder layer on unpadded batches.

Tokens of all sequences are concatenated to (total, dim); cu_seqlens = [0, l0, l0+l1, ...].
Weights are taken over from a torch.nn.TransformerEncoderLayer so existing checkpoints keep working.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VarlenSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads, self.hd = dim, heads, dim // heads
        self.Wqkv = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    @torch.no_grad()
    def load_from_mha(self, mha: nn.MultiheadAttention):
        # rows of in_proj_weight: all of q, then all of k, then all of v
        self.Wqkv.weight.copy_(mha.in_proj_weight)
        self.Wqkv.bias.copy_(mha.in_proj_bias)
        self.out_proj.load_state_dict(mha.out_proj.state_dict())

    def forward(self, x, cu_seqlens):
        total = x.size(0)
        qkv = self.Wqkv(x).view(total, self.heads, 3, self.hd)
        q, k, v = qkv.unbind(dim=2)                      # each (total, heads, hd)
        out = torch.empty_like(q)
        bounds = cu_seqlens.tolist()
        for lo, hi in zip(bounds[:-1], bounds[1:]):
            qi, ki, vi = (t[lo:hi].transpose(0, 1) for t in (q, k, v))
            out[lo:hi] = F.scaled_dot_product_attention(qi[None], ki[None], vi[None])[0].transpose(0, 1)
        return self.out_proj(out.reshape(total, self.dim))


class VarlenEncoderLayer(nn.Module):
    def __init__(self, dim, heads, ff):
        super().__init__()
        self.attn = VarlenSelfAttention(dim, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, ff), nn.Linear(ff, dim)

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer):
        dim, heads = layer.self_attn.embed_dim, layer.self_attn.num_heads
        new = cls(dim, heads, layer.linear1.out_features)
        new.attn.load_from_mha(layer.self_attn)
        for mine, theirs in ((new.norm1, layer.norm1), (new.norm2, layer.norm2),
                             (new.fc1, layer.linear1), (new.fc2, layer.linear2)):
            mine.load_state_dict(theirs.state_dict())
        return new

    def forward(self, x, cu_seqlens):
        x = self.norm1(x + self.attn(x, cu_seqlens))
        return self.norm2(x + self.fc2(F.relu(self.fc1(x))))


def unpad(x, lengths):
    keep = torch.arange(x.size(1))[None, :] < lengths[:, None]
    cu = F.pad(lengths.cumsum(0), (1, 0))
    return x[keep], cu
