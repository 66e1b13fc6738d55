import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    """Decoder states attend over the encoder's memory."""

    def __init__(self, d_model: int, nhead: int):
        super().__init__()
        self.nhead = nhead
        self.head_dim = d_model // nhead
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, tgt, memory):
        B, T, C = tgt.shape
        S = memory.shape[1]
        q = self.q_proj(tgt).reshape(B, T, self.nhead, self.head_dim).permute(0, 2, 1, 3)
        k = self.k_proj(memory).reshape(B, S, self.nhead, self.head_dim).permute(0, 2, 3, 1)
        v = self.v_proj(memory).reshape(B, S, self.nhead, self.head_dim).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k)
        weights = torch.softmax(scores, dim=-1)
        ctx = torch.matmul(weights, v)
        return self.out_proj(ctx.permute(0, 2, 1, 3).reshape(B, T, C))
