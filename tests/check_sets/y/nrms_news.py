"""NRMS: neural news recommendation with multi-head self attention.

Title word ids use 0 for padding. History slots that hold no article are all 0.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AdditivePool(nn.Module):
    """softmax(w . tanh(V x)) pooling; keep (.., n) True = use"""

    def __init__(self, dim, hid):
        super().__init__()
        self.V = nn.Linear(dim, hid)
        self.w = nn.Linear(hid, 1, bias=False)

    def forward(self, x, keep=None):
        a = self.w(torch.tanh(self.V(x))).squeeze(-1)
        if keep is not None:
            a = a.masked_fill(~keep, -1e9)
        return torch.einsum('...n,...nd->...d', a.softmax(-1), x)


class SelfAttn(nn.Module):
    """x (B, n, d_in) -> (B, n, heads * d_head). pad (B, n): True marks padding"""

    def __init__(self, d_in, heads, d_head):
        super().__init__()
        self.heads, self.d_head = heads, d_head
        self.W_Q = nn.Linear(d_in, heads * d_head)
        self.W_K = nn.Linear(d_in, heads * d_head)
        self.W_V = nn.Linear(d_in, heads * d_head)

    def forward(self, x, pad=None):
        B, n, _ = x.shape
        q = self.W_Q(x).view(B, n, self.heads, self.d_head).transpose(1, 2)
        k = self.W_K(x).view(B, n, self.heads, self.d_head).transpose(1, 2)
        v = self.W_V(x).view(B, n, self.heads, self.d_head).transpose(1, 2)
        bias = None
        if pad is not None:
            bias = pad[:, None, None, :].expand(B, 1, n, n)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return o.transpose(1, 2).flatten(2)


class NewsEncoder(nn.Module):
    def __init__(self, vocab, d_word=20, heads=4, d_head=6, d_query=16, p=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_word, padding_idx=0)
        self.att = SelfAttn(d_word, heads, d_head)
        self.pool = AdditivePool(heads * d_head, d_query)
        self.drop = nn.Dropout(p)

    def forward(self, title):
        pad = title == 0
        x = self.drop(self.emb(title))
        x = self.drop(self.att(x, pad))
        return self.pool(x, ~pad)


class NRMS(nn.Module):
    def __init__(self, vocab=60, heads=4, d_head=6):
        super().__init__()
        d = heads * d_head
        self.news = NewsEncoder(vocab, heads=heads, d_head=d_head)
        self.user_att = SelfAttn(d, heads, d_head)
        self.user_pool = AdditivePool(d, 16)

    def forward(self, history, candidates):
        """history (B, n_hist, L), candidates (B, n_cand, L) -> click logits (B, n_cand)"""
        B, n, L = history.shape
        c = candidates.shape[1]
        h = self.news(history.reshape(B * n, L)).view(B, n, -1)
        t = self.news(candidates.reshape(B * c, L)).view(B, c, -1)
        empty = (history == 0).all(-1)
        u = self.user_att(h, empty)
        u = self.user_pool(u, ~empty)
        return torch.bmm(t, u.unsqueeze(-1)).squeeze(-1)
