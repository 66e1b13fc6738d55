"""Декодер з увагою Богданау (українська -> англійська), навчальний проєкт.

Один крок декодера. Увага порівнює стан декодера s з кожним станом енкодера:

    e_j = v . tanh(W [s ; h_j]),   a = softmax_j(e),   c = sum_j a_j h_j

Форми:
    token    (B,)        номер попереднього слова
    hidden   (1, B, D)   стан GRU
    enc      (B, L, D)   стани енкодера h_j, L = max_len, без доповнення
Повертає: логарифми ймовірностей (B, V), новий стан (1, B, D), ваги a (B, L).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttnDecoder(nn.Module):
    def __init__(self, V=30, D=16, max_len=7, p=0.1):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.drop = nn.Dropout(p)
        self.attn = nn.Linear(2 * D, max_len)
        self.combine = nn.Linear(2 * D, D)
        self.gru = nn.GRU(D, D, batch_first=True)
        self.out = nn.Linear(D, V)

    def forward(self, token, hidden, enc):
        x = self.drop(self.emb(token))                      # B D
        s = hidden[0]
        # ваги уваги
        e = self.attn(torch.cat([x, s], dim=1))
        a = F.softmax(e, dim=1)
        c = torch.bmm(a.unsqueeze(1), enc).squeeze(1)       # контекст
        y = F.relu(self.combine(torch.cat([x, c], dim=1)))
        y, hidden = self.gru(y.unsqueeze(1), hidden)
        return F.log_softmax(self.out(y.squeeze(1)), dim=1), hidden, a
