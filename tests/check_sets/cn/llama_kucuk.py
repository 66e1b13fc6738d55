"""Küçük LLaMA: dikkat katmanı (gruplu sorgular + KV önbelleği).

baslik     : sorgu başlığı sayısı
kv_baslik  : anahtar/değer başlığı sayısı; ardışık  baslik // kv_baslik  sorgu
             başlığı aynı kv başlığını paylaşır (LLaMA-2 ağırlıklarıyla uyumlu)
Nedensel: her simge kendisini ve öncekileri görür.  Konumlar gömme katmanında
eklenir, burada döndürme yok.
"""
import torch
import torch.nn as nn


class Onbellek:
    """Bir katmanın anahtar ve değerleri, [B, kv_baslik, S, d]."""

    def __init__(self):
        self.k = None
        self.v = None

    def ekle(self, k, v):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return k, v


class Dikkat(nn.Module):
    def __init__(self, boyut=64, baslik=8, kv_baslik=2):
        super().__init__()
        assert boyut % baslik == 0 and baslik % kv_baslik == 0
        self.baslik, self.kv_baslik = baslik, kv_baslik
        self.d = boyut // baslik
        self.wq = nn.Linear(boyut, baslik * self.d, bias=False)
        self.wk = nn.Linear(boyut, kv_baslik * self.d, bias=False)
        self.wv = nn.Linear(boyut, kv_baslik * self.d, bias=False)
        self.wo = nn.Linear(baslik * self.d, boyut, bias=False)

    def forward(self, x, onbellek=None):
        """x: [B, T, boyut] -> [B, T, boyut]; onbellek: Onbellek veya None"""
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.baslik, self.d).transpose(1, 2)
        k = self.wk(x).view(B, T, self.kv_baslik, self.d).transpose(1, 2)
        v = self.wv(x).view(B, T, self.kv_baslik, self.d).transpose(1, 2)
        if onbellek is not None:
            k, v = onbellek.ekle(k, v)

        tekrar = self.baslik // self.kv_baslik
        k = k.repeat(1, tekrar, 1, 1)
        v = v.repeat(1, tekrar, 1, 1)

        S = k.shape[2]
        puan = torch.matmul(q, k.transpose(2, 3)) / self.d ** 0.5
        sira = torch.arange(S - T, S, device=x.device)[:, None]
        gizli = torch.arange(S, device=x.device)[None, :] > sira
        puan = puan.masked_fill(gizli, float("-inf"))
        agirlik = torch.softmax(puan.float(), dim=-1).type_as(q)
        y = torch.matmul(agirlik, v)
        return self.wo(y.transpose(1, 2).contiguous().view(B, T, -1))
