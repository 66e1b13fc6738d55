"""Classifier for haiku / tanka / senryu. The poems of a batch come as one flat tensor
plus their lengths, no padding anywhere (collate in data.py)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Uta(nn.Module):
    """bidirectional self-attention, never across poems

    flat: (sum(nagasa), kasa)    nagasa: list of int, lengths of the poems in order
    """

    def __init__(self, kasa=24, atama=4):
        super().__init__()
        self.atama = atama
        self.toi = nn.Linear(kasa, kasa)
        self.kagi_atai = nn.Linear(kasa, kasa * 2)
        self.matome = nn.Linear(kasa, kasa)
        self.ln = nn.LayerNorm(kasa)

    def forward(self, flat, nagasa):
        y = self.ln(flat)
        q = self.toi(y).unflatten(-1, (self.atama, -1))
        k, v = self.kagi_atai(y).chunk(2, dim=-1)
        k = k.unflatten(-1, (self.atama, -1))
        v = v.unflatten(-1, (self.atama, -1))
        kekka = []
        for qi, ki, vi in zip(q.split(nagasa), k.split(nagasa), v.split(nagasa)):
            # (atama, n, d)
            o = F.scaled_dot_product_attention(
                qi.transpose(0, 1), ki.transpose(0, 1), vi.transpose(0, 1)
            )
            kekka.append(o.transpose(0, 1).flatten(1))
        return flat + self.matome(torch.cat(kekka))


class Shijin(nn.Module):
    def __init__(self, moji=90, kasa=24, atama=4, dan=2, shurui=3, max_len=40):
        super().__init__()
        self.moji = nn.Embedding(moji, kasa)
        self.ichi = nn.Embedding(max_len, kasa)
        self.dan = nn.ModuleList([Uta(kasa, atama) for _ in range(dan)])
        self.hantei = nn.Linear(kasa, shurui)

    def forward(self, ids, nagasa):
        """ids (sum(nagasa),) -> logits (len(nagasa), shurui), mean over each poem"""
        where = torch.cat([torch.arange(n, device=ids.device) for n in nagasa])
        x = self.moji(ids) + self.ichi(where)
        for d in self.dan:
            x = d(x, nagasa)
        return self.hantei(torch.stack([p.mean(0) for p in x.split(nagasa)]))
