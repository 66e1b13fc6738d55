"""Multi-head attention with heads folded into the batch (speech recogniser)."""
import numpy as np
import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    """
    q: (B, Lq, d_model), kv: (B, Lk, d_model)
    pad: (B, Lk) bool, True on padded frames of kv; these get no weight. Every
    utterance has at least one real frame.

    Returns out (B, Lq, d_model) and weights (heads, B, Lq, Lk). Post-norm with residual.
    """

    def __init__(self, d_model=24, heads=3, d_k=8):
        super().__init__()
        self.heads, self.d_k = heads, d_k
        self.w_q = nn.Linear(d_model, heads * d_k)
        self.w_k = nn.Linear(d_model, heads * d_k)
        self.w_v = nn.Linear(d_model, heads * d_k)
        for w in (self.w_q, self.w_k, self.w_v):
            nn.init.normal_(w.weight, std=np.sqrt(2.0 / (d_model + d_k)))
        self.fc = nn.Linear(heads * d_k, d_model)
        self.norm = nn.LayerNorm(d_model)

    def fold(self, t):
        # (B, L, heads*d_k) -> (heads*B, L, d_k)
        B, L, _ = t.shape
        return t.view(B, L, self.heads, self.d_k).permute(2, 0, 1, 3).reshape(-1, L, self.d_k)

    def forward(self, q, kv, pad=None):
        B, Lq, _ = q.shape
        Lk = kv.size(1)
        Q, K, V = self.fold(self.w_q(q)), self.fold(self.w_k(kv)), self.fold(self.w_v(kv))
        score = torch.bmm(Q, K.transpose(1, 2)) / np.sqrt(self.d_k)
        if pad is not None:
            m = pad.unsqueeze(1).expand(B, Lq, Lk)
            m = m.repeat_interleave(self.heads, dim=0)
            score = score.masked_fill(m, -np.inf)
        w = torch.softmax(score, dim=2)
        ctx = torch.bmm(w, V).view(self.heads, B, Lq, self.d_k)
        ctx = ctx.permute(1, 2, 0, 3).reshape(B, Lq, -1)
        return self.norm(q + self.fc(ctx)), w.view(self.heads, B, Lq, Lk)
