"""法条预测：逐标签注意力 (label-wise attention, CAML).

输入 tokens (B, T) 为词编号，0 表示填充 (每个样本至少有一个非零词)。
对每一个法条 l 单独计算:
    alpha_l = softmax_t( u_l · h_t )      只在真实的词上归一化
    m_l     = sum_t alpha_l,t h_t
    y_l     = w_l · m_l + b_l
h 为一维卷积 + tanh 的输出；打分不缩放 (与原文一致)。
返回 logits (B, L) 与 alpha (B, L, T)。
"""
import torch
from torch import nn
import torch.nn.functional as F


class StatutePredictor(nn.Module):
    def __init__(self, vocab, n_labels, emb=20, filters=24, width=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb, padding_idx=0)
        self.drop = nn.Dropout(0.2)
        self.conv = nn.Conv1d(emb, filters, width, padding=width // 2)
        self.U = nn.Linear(filters, n_labels, bias=False)
        self.final = nn.Linear(filters, n_labels)

    def forward(self, tokens):
        x = self.drop(self.embed(tokens)).transpose(1, 2)
        h = torch.tanh(self.conv(x)).transpose(1, 2)              # B, T, filters
        score = self.U.weight.matmul(h.transpose(1, 2))           # B, L, T
        score = score.masked_fill(tokens.eq(0).unsqueeze(1), -float("inf"))
        alpha = F.softmax(score, dim=2)
        m = alpha.matmul(h)                                       # B, L, filters
        y = self.final.weight.mul(m).sum(dim=2).add(self.final.bias)
        return y, alpha

    def loss(self, tokens, target):
        y, _ = self(tokens)
        return F.binary_cross_entropy_with_logits(y, target)
