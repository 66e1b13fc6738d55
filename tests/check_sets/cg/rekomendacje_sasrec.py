"""Rekomendacje sekwencyjne dla sklepu (wariant SASRec).

Wejście: historia zakupów użytkownika, identyfikatory produktów ``[B, T]``;
0 oznacza dopełnienie i stoi zawsze na końcu.  Pozycja t widzi tylko produkty
do t włącznie.  Wyjście: oceny wszystkich produktów dla następnego zakupu.
"""
import torch
from torch import nn


class WarstwaSasRec(nn.Module):
    def __init__(self, wymiar, glowice, porzucanie):
        super().__init__()
        self.norma_a = nn.LayerNorm(wymiar)
        self.uwaga = nn.MultiheadAttention(wymiar, glowice, dropout=porzucanie, batch_first=True)
        self.norma_b = nn.LayerNorm(wymiar)
        self.siec = nn.Sequential(
            nn.Linear(wymiar, wymiar), nn.ReLU(), nn.Dropout(porzucanie), nn.Linear(wymiar, wymiar)
        )

    def forward(self, x, przyszlosc, puste):
        # jak w pracy: normalizujemy tylko zapytania, klucze i wartości bierzemy surowe
        q = self.norma_a(x)
        y, _ = self.uwaga(q, x, x, attn_mask=przyszlosc, key_padding_mask=puste,
                          need_weights=False)
        x = q + y
        return x + self.siec(self.norma_b(x))


class SasRec(nn.Module):
    def __init__(self, produkty: int = 200, wymiar: int = 32, glowice: int = 2,
                 warstwy: int = 2, maks: int = 50, porzucanie: float = 0.2):
        super().__init__()
        self.emb = nn.Embedding(produkty + 1, wymiar, padding_idx=0)
        self.poz = nn.Embedding(maks, wymiar)
        self.porzuc = nn.Dropout(porzucanie)
        self.warstwy = nn.ModuleList(
            [WarstwaSasRec(wymiar, glowice, porzucanie) for _ in range(warstwy)]
        )
        self.norma = nn.LayerNorm(wymiar)

    def forward(self, historia):
        dl = historia.shape[1]
        puste = historia == 0
        x = self.emb(historia) * self.emb.embedding_dim ** 0.5
        x = self.porzuc(x + self.poz(torch.arange(dl, device=historia.device)))
        # True = nie wolno patrzeć
        przyszlosc = torch.triu(
            torch.ones(dl, dl, dtype=torch.bool, device=historia.device), diagonal=1
        )
        for w in self.warstwy:
            x = w(x, przyszlosc, puste)
        ostatni = (~puste).sum(1) - 1
        u = self.norma(x)[torch.arange(len(x), device=x.device), ostatni]
        return u @ self.emb.weight[1:].T


if __name__ == "__main__":
    model = SasRec().eval()
    h = torch.tensor([[5, 8, 13, 0, 0], [7, 1, 2, 3, 9]])
    print(model(h).topk(3).indices + 1)
