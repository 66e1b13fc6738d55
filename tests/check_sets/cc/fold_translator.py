"""Encoder-decoder attention of a translation model, heads folded into the batch.

Tensors go through torch.bmm as [B*H, T, d] with the heads of a sentence next to each
other, which was the fast way on our old GPUs.  `src_pad` is True on padding.
"""
import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    def __init__(self, d_model, num_heads, kdim=None, dropout=0.0):
        super().__init__()
        kdim = kdim or d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.scaling = self.head_dim ** -0.5
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(kdim, d_model)
        self.v_proj = nn.Linear(kdim, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def fold(self, x):
        b, t, _ = x.shape
        x = x.view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        return x.reshape(b * self.num_heads, t, self.head_dim)

    def unfold(self, x, b):
        t = x.size(1)
        x = x.view(b, self.num_heads, t, self.head_dim).transpose(1, 2)
        return x.reshape(b, t, self.num_heads * self.head_dim)

    def forward(self, query, memory, src_pad=None):
        b = query.size(0)
        q = self.fold(self.q_proj(query) * self.scaling)
        k = self.fold(self.k_proj(memory))
        v = self.fold(self.v_proj(memory))
        energy = torch.bmm(q, k.transpose(1, 2))
        if src_pad is not None:
            mask = src_pad.unsqueeze(1).repeat(self.num_heads, 1, 1)
            energy = energy.masked_fill(mask, float("-inf"))
        probs = torch.softmax(energy, dim=-1)
        out = torch.bmm(self.dropout(probs), v)
        return self.out_proj(self.unfold(out, b))


class CrossBlock(nn.Module):
    """Residual cross-attention followed by a feed-forward, pre-norm."""

    def __init__(self, d_model=32, num_heads=4, enc_dim=24, dropout=0.1):
        super().__init__()
        self.norm_q = nn.LayerNorm(d_model)
        self.attn = FoldedAttention(d_model, num_heads, enc_dim, dropout)
        self.norm_f = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, src_pad=None):
        x = x + self.drop(self.attn(self.norm_q(x), memory, src_pad))
        return x + self.drop(self.ff(self.norm_f(x)))


if __name__ == "__main__":
    blk = CrossBlock().eval()
    pad = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]).bool()
    print(blk(torch.randn(2, 3, 32), torch.randn(2, 5, 24), pad).shape)
