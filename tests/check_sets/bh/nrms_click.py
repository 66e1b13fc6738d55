# -*- coding: utf-8 -*-
# 新闻推荐：用户编码器（NRMS 风格，自己复现，MIND-small）
# 点击历史 -> 加性注意力池化 -> 用户向量 -> 与候选新闻点积
import torch
import torch.nn as nn
import torch.nn.functional as F


class AdditivePool(nn.Module):
    """加性注意力池化

    a_i = v^T tanh(W x_i + b)，alpha = softmax(a)，输出 sum_i alpha_i x_i
    查询向量 v 是可学习参数，与样本无关（论文就是这样）。

    x:    (B, N, D)
    keep: (B, N)  1 = 真实点击, 0 = 填充
    没有任何点击的用户返回零向量。
    """

    def __init__(self, dim, hidden=200):
        super().__init__()
        self.w = nn.Linear(dim, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, x, keep=None):
        a = self.v(torch.tanh(self.w(x))).squeeze(-1)
        if keep is None:
            alpha = a.softmax(dim=1)
        else:
            real = keep.bool()
            top = a.masked_fill(~real, -1e4).amax(dim=1, keepdim=True)   # 数值稳定，只看真实点击
            e = (a - top).masked_fill(~real, float("-inf")).exp()
            alpha = e / e.sum(dim=1, keepdim=True).clamp_min(1e-30)
        return torch.bmm(alpha.unsqueeze(1), x).squeeze(1)


class NewsEncoder(nn.Module):
    """标题 -> 向量：词向量 + 卷积 + 加性池化"""

    def __init__(self, vocab, emb=64, dim=96, pad=0):
        super().__init__()
        self.pad = pad
        self.emb = nn.Embedding(vocab, emb, padding_idx=pad)
        self.conv = nn.Conv1d(emb, dim, 3, padding=1)
        self.pool = AdditivePool(dim)

    def forward(self, title):
        h = self.emb(title).transpose(1, 2)
        h = F.relu(self.conv(h)).transpose(1, 2)
        return self.pool(h, title.ne(self.pad))


class ClickModel(nn.Module):
    def __init__(self, vocab, dim=96):
        super().__init__()
        self.news = NewsEncoder(vocab, dim=dim)
        self.user = AdditivePool(dim)

    def forward(self, history, candidates, hist_keep=None):
        """history: (B, N, L) 词编号; candidates: (B, C, L); 返回 (B, C) 的分数"""
        b, n, l = history.shape
        h = self.news(history.reshape(b * n, l)).reshape(b, n, -1)
        c = self.news(candidates.flatten(0, 1)).reshape(b, candidates.size(1), -1)
        u = self.user(h, hist_keep)
        return torch.einsum("bd,bcd->bc", u, c)


def loss_fn(score):
    # 第 0 个候选是正样本，其余是负采样
    return F.cross_entropy(score, torch.zeros(len(score), dtype=torch.long))


if __name__ == "__main__":
    m = ClickModel(500)
    s = m(torch.randint(0, 500, (3, 10, 12)), torch.randint(0, 500, (3, 5, 12)),
          torch.randint(0, 2, (3, 10)))
    print(s.shape, loss_fn(s).item())
