# -*- coding: utf-8 -*-
"""NRMS news recommender (Wu et al., EMNLP 2019): words -> title, clicked titles -> user."""
import torch
import torch.nn as nn


class MultiHeadSelfAttention(nn.Module):
    """Attention among the words of a title, or among the titles of a history.

    mask: [B, L], True where there is a word (or a title), False where the row was filled up.
    Filling must not be read by anybody.
    """

    def __init__(self, d_model, num_attention_heads):
        super(MultiHeadSelfAttention, self).__init__()
        assert d_model % num_attention_heads == 0
        self.num_attention_heads = num_attention_heads
        self.d_k = d_model // num_attention_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self._initialize_weights()

    def _initialize_weights(self):
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight, gain=1)

    def forward(self, Q, K=None, V=None, mask=None):
        K = Q if K is None else K
        V = Q if V is None else V
        batch_size = Q.size(0)

        q_s = self.W_Q(Q).view(batch_size, -1, self.num_attention_heads, self.d_k).transpose(1, 2)
        k_s = self.W_K(K).view(batch_size, -1, self.num_attention_heads, self.d_k).transpose(1, 2)
        v_s = self.W_V(V).view(batch_size, -1, self.num_attention_heads, self.d_k).transpose(1, 2)

        scores = torch.matmul(q_s, k_s.transpose(-1, -2)) / (self.d_k ** 0.5)
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1).unsqueeze(3), -1e9)
        attn = torch.softmax(scores, dim=-1)

        context = torch.matmul(attn, v_s)
        return context.transpose(1, 2).contiguous().view(
            batch_size, -1, self.num_attention_heads * self.d_k)


class AdditivePooling(nn.Module):
    """One learned query, tanh layer, softmax over the row."""

    def __init__(self, query_dim, dim):
        super(AdditivePooling, self).__init__()
        self.linear = nn.Linear(dim, query_dim)
        self.query = nn.Parameter(torch.empty(query_dim).uniform_(-0.1, 0.1))

    def forward(self, x, mask=None):
        score = torch.tanh(self.linear(x)) @ self.query
        if mask is not None:
            score = score.masked_fill(~mask, -1e9)
        return torch.bmm(torch.softmax(score, dim=1).unsqueeze(1), x).squeeze(1)


class TextEncoder(nn.Module):
    def __init__(self, num_words, dim=48, heads=4, query_dim=24, p=0.2):
        super(TextEncoder, self).__init__()
        self.emb = nn.Embedding(num_words, dim, padding_idx=0)
        self.attn = MultiHeadSelfAttention(dim, heads)
        self.pool = AdditivePooling(query_dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, title):
        mask = title != 0
        x = self.drop(self.emb(title))
        return self.pool(self.drop(self.attn(x, mask=mask)), mask)


class UserEncoder(nn.Module):
    def __init__(self, dim=48, heads=4, query_dim=24):
        super(UserEncoder, self).__init__()
        self.attn = MultiHeadSelfAttention(dim, heads)
        self.pool = AdditivePooling(query_dim, dim)

    def forward(self, clicked, mask):
        return self.pool(self.attn(clicked, mask=mask), mask)


class NRMS(nn.Module):
    """clicked [B, N, words], candidates [B, C, words] -> click scores [B, C]"""

    def __init__(self, num_words=1000):
        super(NRMS, self).__init__()
        self.news_encoder = TextEncoder(num_words)
        self.user_encoder = UserEncoder()

    def titles(self, t):
        return self.news_encoder(t.flatten(0, 1)).view(t.size(0), t.size(1), -1)

    def forward(self, clicked, candidates):
        history = (clicked != 0).any(-1)
        user = self.user_encoder(self.titles(clicked), history)
        return torch.bmm(self.titles(candidates), user.unsqueeze(-1)).squeeze(-1)

    def loss(self, clicked, candidates):
        """The clicked title stands first among the candidates."""
        y = self(clicked, candidates)
        return nn.functional.cross_entropy(y, torch.zeros(len(y), dtype=torch.long, device=y.device))


if __name__ == '__main__':
    m = NRMS()
    print(m(torch.randint(0, 1000, (2, 6, 10)), torch.randint(1, 1000, (2, 5, 10))))
