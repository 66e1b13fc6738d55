import torch
import torch.nn as nn


class VanillaEncoderLayer(nn.Module):
    """One encoder layer of 'Attention Is All You Need' (post-norm).

    Every head computes softmax(Q K^T / sqrt(d_k)) V with d_k = d_model / n_head.

    x : (B, L, d_model) -> (B, L, d_model)
    """

    def __init__(self, d_model=64, n_head=8, d_inner=128, p=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.temper = d_model ** 0.5
        self.ffn = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(p)

    def forward(self, x):
        B, L, D = x.shape
        q = self.w_qs(x).view(B, L, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(x).view(B, L, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(x).view(B, L, self.n_head, self.d_k).transpose(1, 2)
        attn = torch.matmul(q / self.temper, k.transpose(2, 3))
        attn = self.dropout(torch.softmax(attn, dim=-1))
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, L, D)
        x = self.ln1(x + self.dropout(self.fc(out)))
        return self.ln2(x + self.dropout(self.ffn(x)))
