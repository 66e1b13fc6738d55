"""keras.layers.MultiHeadAttention -> torch, as used in the text classifier of the course.

Keras side:
    y = MultiHeadAttention(num_heads=H, key_dim=D // H)(x, x, attention_mask=m)
    x = LayerNormalization()(x + y)
where m is (B, T, T) and, as the Keras manual says, 1/True indicates attention and 0/False
indicates no attention.  The torch module below takes the same m and should give the same
numbers once the kernels are copied.
"""
import torch
import torch.nn as nn


class KerasLikeBlock(nn.Module):
    """x: (B, T, D); m: (B, T, T) bool or 0/1, Keras convention (True = may attend).

    Every query is allowed at least one key, and in general not all of them.
    Returns (B, T, D).
    """

    def __init__(self, D=64, H=4, ff=128):
        super().__init__()
        self.H = H
        self.mha = nn.MultiheadAttention(D, H, batch_first=True)
        self.n1 = nn.LayerNorm(D, eps=1e-3)       # Keras default epsilon
        self.n2 = nn.LayerNorm(D, eps=1e-3)
        self.ff = nn.Sequential(nn.Linear(D, ff), nn.ReLU(), nn.Linear(ff, D))

    def load_keras(self, wq, wk, wv, wo):
        """Keras kernels: (D, H, d) for q, k, v and (H, d, D) for the output; biases zero."""
        D = wq.shape[0]
        with torch.no_grad():
            stacked = torch.cat([w.reshape(D, D).T for w in (wq, wk, wv)], dim=0)
            self.mha.in_proj_weight.copy_(stacked)
            self.mha.out_proj.weight.copy_(wo.reshape(D, D).T)
            self.mha.in_proj_bias.zero_()
            self.mha.out_proj.bias.zero_()

    def forward(self, x, m=None):
        if m is not None:
            # torch wants (B * H, T, T)
            m = m.bool().repeat_interleave(self.H, dim=0)
        y, _ = self.mha(x, x, x, attn_mask=m, need_weights=False)
        x = self.n1(x + y)
        return self.n2(x + self.ff(x))
