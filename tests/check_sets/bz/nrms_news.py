"""NRMS: Neural News Recommendation with Multi-Head Self-Attention (EMNLP 2019).

Unofficial reproduction for the MIND dataset.  A user is the additive-attention pooling of
the clicked news after one layer of multi-head self-attention:

    s_t   = v^T tanh(W h_t + b)        score of a clicked news
    alpha = softmax(s) over real clicks
    u     = sum_t alpha_t h_t

Click history is padded on the right; `hist_len` holds the number of real clicks
(at least one per user - cold users are dropped by the loader).
"""
import math

import torch
import torch.nn as nn


class AdditivePooling(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.proj = nn.Linear(dim, hidden)
        self.query = nn.Linear(hidden, 1, bias=False)

    def forward(self, h, valid):
        s = self.query(torch.tanh(self.proj(h))).squeeze(-1)
        s = s.masked_fill(~valid, -math.inf)
        return torch.softmax(s, dim=1).unsqueeze(1).bmm(h).squeeze(1)


class UserEncoder(nn.Module):
    def __init__(self, news_dim=40, heads=5, pool_hidden=20):
        super().__init__()
        self.heads = heads
        self.head_dim = news_dim // heads
        self.to_qkv = nn.Linear(news_dim, 3 * news_dim)
        self.pool = AdditivePooling(news_dim, pool_hidden)

    def forward(self, clicked, hist_len):
        """clicked [B, N, D], hist_len [B] -> user vector [B, D]"""
        B, N, D = clicked.shape
        valid = torch.arange(N, device=clicked.device)[None, :] < hist_len[:, None]
        q, k, v = self.to_qkv(clicked).chunk(3, dim=-1)
        q, k, v = (t.reshape(B, N, self.heads, self.head_dim) for t in (q, k, v))
        logits = torch.einsum("bnhd,bmhd->bnmh", q, k) / math.sqrt(self.head_dim)
        logits = logits.masked_fill(~valid[:, None, :, None], -math.inf)
        a = logits.softmax(dim=2)                      # keys are on axis 2 here
        h = torch.einsum("bnmh,bmhd->bnhd", a, v).reshape(B, N, D)
        return self.pool(h, valid)


def click_logits(user, candidates):
    """Dot product of user [B, D] with candidate news [B, C, D]."""
    return torch.einsum("bd,bcd->bc", user, candidates)


if __name__ == "__main__":
    enc = UserEncoder()
    u = enc(torch.randn(3, 7, 40), torch.tensor([7, 2, 4]))
    print(click_logits(u, torch.randn(3, 5, 40)).softmax(-1))
