"""Блок внимания с линейным смещением (ALiBi), причинный.

Vnimanie(razm, golov)(h, zapoln)
    h       (B, T, razm)
    zapoln  (B, T) bool, True = заполнение (padding); первый элемент строки всегда настоящий.
Возвращает (B, T, razm).  Строки, отвечающие заполнению, дальше не используются.

Логиты: q·k / sqrt(razm/golov) - m_g * (i - j); чем дальше ключ j от запроса i, тем меньше вес.
m_g = 2^(-8 g / golov), g = 1..golov, golov - степень двойки.  Запрос i видит ключи j <= i, и
ни один запрос не видит ключей-заполнителей.
(Causal attention with ALiBi; distant keys get LESS weight; no query may see a padded key.)
"""
import torch
import torch.nn as nn


class Vnimanie(nn.Module):
    def __init__(self, razm, golov):
        super().__init__()
        self.golov = golov
        self.zapros = nn.Linear(razm, razm)
        self.klyuch = nn.Linear(razm, razm)
        self.znach = nn.Linear(razm, razm)
        self.vyhod = nn.Linear(razm, razm)
        g = torch.arange(1, golov + 1)
        self.register_buffer("naklon", 2.0 ** (-8.0 * g / golov))

    def razdelit(self, t):
        b, n, r = t.shape
        return t.reshape(b, n, self.golov, r // self.golov).permute(0, 2, 1, 3)

    def forward(self, h, zapoln):
        b, n, r = h.shape
        q, k, v = self.razdelit(self.zapros(h)), self.razdelit(self.klyuch(h)), self.razdelit(self.znach(h))
        ball = q @ k.transpose(-2, -1) / (r // self.golov) ** 0.5

        mesto = torch.arange(n)
        shag = mesto[:, None] - mesto[None, :]
        ball = ball + self.naklon[:, None, None] * shag

        nelzya = (shag < 0)[None, None] | zapoln.unsqueeze(1).unsqueeze(3)
        ball = ball.masked_fill(nelzya, torch.finfo(ball.dtype).min)
        ves = torch.softmax(ball, dim=-1)
        y = (ves @ v).permute(0, 2, 1, 3).reshape(b, n, r)
        return self.vyhod(y)
