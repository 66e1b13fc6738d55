"""Рекомендации фильмов по истории просмотров (пет-проект, MovieLens-1M).

Кандидат смотрит на историю пользователя. Внимание разреженное: для каждого запроса
остаются только k ключей с наибольшими логитами, softmax берётся по ним, остальные
веса равны нулю (как в "Explicit Sparse Transformer"). Если реальных просмотров
меньше k, берутся все реальные. Пользователь без истории получает нулевой вектор.
"""
import torch
import torch.nn as nn


class TopKAttention(nn.Module):
    def __init__(self, dim, heads=2, k=4):
        super().__init__()
        self.h, self.k = heads, k
        self.dh = dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim)

    def forward(self, cand, hist, hist_len):
        # cand (B, C, D), hist (B, L, D), hist_len (B,)
        B, C, _ = cand.shape
        L = hist.shape[1]
        q = self.wq(cand).view(B, C, self.h, self.dh)
        k = self.wk(hist).view(B, L, self.h, self.dh)
        v = self.wv(hist).view(B, L, self.h, self.dh)

        logits = torch.einsum('bchd,blhd->bhcl', q, k) / self.dh ** 0.5
        pad = torch.arange(L, device=hist.device)[None, :] >= hist_len[:, None]
        neg = torch.finfo(logits.dtype).min
        logits = logits.masked_fill(pad[:, None, None, :], neg)

        # берём k лучших; добивка в top-k попадает с весом ~0
        top, idx = logits.topk(min(self.k, L), dim=-1)
        w = top.softmax(dim=-1)
        w = torch.zeros_like(logits).scatter(-1, idx, w)
        w = w * (~pad)[:, None, None, :]          # пустая история -> все веса ноль

        out = torch.einsum('bhcl,blhd->bchd', w, v).reshape(B, C, -1)
        return self.wo(out), w


class Recommender(nn.Module):
    """Оценка кандидатов: скалярное произведение с вектором интересов + популярность."""

    def __init__(self, n_items, dim=32, heads=2, k=4):
        super().__init__()
        self.items = nn.Embedding(n_items, dim, padding_idx=0)
        self.age = nn.Embedding(64, dim)          # давность просмотра, 0 = самый свежий
        self.attn = TopKAttention(dim, heads, k)
        self.norm = nn.LayerNorm(dim)
        self.pop = nn.Embedding(n_items, 1)

    def forward(self, candidates, history):
        # история выровнена влево: [свежий, ..., старый, 0, 0]
        hist_len = (history != 0).sum(-1)
        h = self.items(history)
        h = h + self.age(torch.arange(h.shape[1], device=h.device).clamp(max=63))
        c = self.items(candidates)
        interest, _ = self.attn(c, h, hist_len)
        score = (c * self.norm(interest)).sum(-1)
        return score + self.pop(candidates).squeeze(-1)
