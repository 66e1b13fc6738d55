"""NRMS-like news recommendation on MIND-small.

news encoder : title words  -> news vector
user encoder : clicked news -> user vector
score        : dot product
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentivePooling(nn.Module):
    """
    Additive attention that pools a sequence to one vector.

    x:    FloatTensor [batch, len, dim]
    mask: FloatTensor [batch, len], 1 for real entries and 0 for padding
    """

    def __init__(self, dim, query_dim=200):
        super(AttentivePooling, self).__init__()
        self.proj = nn.Linear(dim, query_dim)
        self.query = nn.Parameter(torch.empty(query_dim).uniform_(-0.1, 0.1))

    def forward(self, x, mask=None):
        e = torch.tanh(self.proj(x))
        e = torch.matmul(e, self.query)
        # |e| <= sum|query|, exp is safe
        alpha = torch.exp(e)
        if mask is not None:
            alpha = alpha * mask
        alpha = alpha / (torch.sum(alpha, dim=1, keepdim=True) + 1e-8)
        return torch.bmm(alpha.unsqueeze(1), x).squeeze(1)


class NewsEncoder(nn.Module):
    def __init__(self, vocab, word_dim, n_filters, window=3, drop=0.2):
        super(NewsEncoder, self).__init__()
        self.word = nn.Embedding(vocab, word_dim, padding_idx=0)
        self.cnn = nn.Conv1d(word_dim, n_filters, window, padding=window // 2)
        self.pool = AttentivePooling(n_filters, 64)
        self.drop = drop

    def forward(self, titles):
        mask = (titles != 0).float()
        w = F.dropout(self.word(titles), self.drop, self.training)
        h = F.relu(self.cnn(w.transpose(1, 2))).transpose(1, 2)
        h = F.dropout(h, self.drop, self.training)
        return self.pool(h, mask)


class UserEncoder(nn.Module):
    def __init__(self, dim):
        super(UserEncoder, self).__init__()
        self.pool = AttentivePooling(dim, 64)
        self.cold = nn.Parameter(torch.zeros(dim))

    def forward(self, clicked, log_mask):
        """clicked [B, H, D], log_mask [B, H] (1 = a click, 0 = filler)"""
        m = log_mask.unsqueeze(-1)
        clicked = clicked * m + self.cold * (1 - m)
        return self.pool(clicked, log_mask)


class Recommender(nn.Module):
    def __init__(self, conf):
        super(Recommender, self).__init__()
        self.news = NewsEncoder(conf["vocab"], conf["word_dim"], conf["n_filters"])
        self.user = UserEncoder(conf["n_filters"])

    def forward(self, batch):
        b, h, t = batch["history"].shape
        c = batch["candidates"].shape[1]
        hist = self.news(batch["history"].view(b * h, t)).view(b, h, -1)
        cand = self.news(batch["candidates"].view(b * c, t)).view(b, c, -1)
        u = self.user(hist, batch["history_mask"])
        return torch.bmm(cand, u.unsqueeze(-1)).squeeze(-1)


def auc(scores, labels):
    pos = scores[labels == 1]
    neg = scores[labels == 0]
    return (pos[:, None] > neg[None]).float().mean()
