"""IMDB sentiment: embedding -> one transformer encoder layer -> mean over real tokens -> logit."""
import torch
from torch import nn
import torch.nn.functional as F

PAD = 0


class SelfAttention(nn.Module):
    """
    Bidirectional attention. Padded tokens must not be attended to.

    x:        [batch, seq, dim]
    pad_mask: [batch, seq] bool, True at the padded positions
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, pad_mask):
        b, s, d = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = [t.reshape(b, s, self.heads, d // self.heads).transpose(1, 2) for t in (q, k, v)]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=pad_mask[:, None, None, :])
        return self.out_proj(out.transpose(1, 2).reshape(b, s, d))


class EncoderLayer(nn.Module):
    def __init__(self, dim=32, heads=4, ff=64, dropout=0.1):
        super().__init__()
        self.attn = SelfAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(ff, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, pad_mask):
        x = self.norm1(x + self.drop(self.attn(x, pad_mask)))
        return self.norm2(x + self.drop(self.ff(x)))


class SentimentNet(nn.Module):
    def __init__(self, vocab=1000, dim=32, heads=4, max_len=256):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.pos = nn.Embedding(max_len, dim)
        self.layer = EncoderLayer(dim, heads)
        self.cls = nn.Linear(dim, 1)

    def forward(self, ids):
        pad_mask = ids == PAD
        x = self.tok(ids) + self.pos.weight[: ids.size(1)]
        x = self.layer(x, pad_mask)
        keep = (~pad_mask).unsqueeze(-1).float()
        pooled = (x * keep).sum(1) / keep.sum(1).clamp(min=1.0)
        return self.cls(pooled).squeeze(-1)
