"""NPA: neural news recommendation with personalized attention (Wu et al., KDD'19), MIND-small.

The personalised attention of the paper: a_i = softmax_i(c_i^T tanh(V q_u + v)), r = sum_i a_i c_i,
with q_u made from the user id; on words inside a title and on clicked news inside a user's history.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PersonalizedAttention(nn.Module):
    """candidates [B, L, C], pref [B, P], mask bool [B, L] (True = exists) -> [B, C]"""

    def __init__(self, pref_dim, cand_dim):
        super().__init__()
        self.V = nn.Linear(pref_dim, cand_dim)

    def forward(self, candidates, pref, mask=None):
        key = torch.tanh(self.V(pref))
        a = torch.bmm(candidates, key.unsqueeze(2)).squeeze(2)
        if mask is not None:
            a = a.masked_fill(~mask, torch.finfo(a.dtype).min)
        a = F.softmax(a, dim=1)
        return torch.mean(a.unsqueeze(2) * candidates, dim=1)


class NewsEncoder(nn.Module):
    def __init__(self, n_words, emb=64, filters=48, pref=32, p=0.2):
        super().__init__()
        self.words = nn.Embedding(n_words, emb, padding_idx=0)
        self.cnn = nn.Conv1d(emb, filters, 3, padding=1)
        self.att = PersonalizedAttention(pref, filters)
        self.drop = nn.Dropout(p)

    def forward(self, title, pref):
        x = self.drop(self.words(title))
        c = F.relu(self.cnn(x.transpose(1, 2))).transpose(1, 2)
        return self.att(self.drop(c), pref, title.ne(0))


class NPA(nn.Module):
    def __init__(self, n_users, n_words, user_dim=24, pref=32, filters=48):
        super().__init__()
        self.users = nn.Embedding(n_users, user_dim)
        self.word_pref = nn.Linear(user_dim, pref)
        self.news_pref = nn.Linear(user_dim, pref)
        self.news = NewsEncoder(n_words, filters=filters, pref=pref)
        self.user_att = PersonalizedAttention(pref, filters)

    def encode_titles(self, titles, qw):
        B, N, W = titles.shape
        q = qw.unsqueeze(1).expand(-1, N, -1).reshape(B * N, -1)
        return self.news(titles.view(B * N, W), q).view(B, N, -1)

    def forward(self, user, clicked, candidates):
        """clicked [B, H, W], candidates [B, K, W], word ids, 0 = padding (an all-zero title is no news)"""
        u = self.users(user)
        qw, qd = F.relu(self.word_pref(u)), F.relu(self.news_pref(u))
        hist = self.encode_titles(clicked, qw)
        cand = self.encode_titles(candidates, qw)
        profile = self.user_att(hist, qd, clicked.ne(0).any(-1))
        return torch.bmm(cand, profile.unsqueeze(2)).squeeze(2)


def sample_negatives(impression, k, generator=None):
    pos = [n for n, y in impression if y]
    neg = [n for n, y in impression if not y]
    out = []
    for p in pos:
        i = torch.randint(max(len(neg), 1), (k,), generator=generator).tolist()
        out.append([p] + [neg[j] if neg else 0 for j in i])
    return out


def mrr(scores, labels):
    order = torch.argsort(scores, descending=True)
    rank = 1.0 / torch.arange(1, len(scores) + 1, dtype=torch.float32)
    y = labels[order].float()
    return float((y * rank).sum() / y.sum().clamp(min=1))
