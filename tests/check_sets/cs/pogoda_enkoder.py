import torch
from torch import nn


class BlokPogody(nn.Module):
    """Blok enkodera dla szeregow pogodowych: pre-norm, uwaga, siec gesta.

    pomiary: (partia, czas, cechy); znane: (partia, czas) bool,
    True = pomiar istnieje, False = brak danych (nie wolno na niego patrzec).
    Kazda probka ma co najmniej jeden znany pomiar.
    """

    def __init__(self, cechy, glowy=2, porzucanie=0.1):
        super().__init__()
        self.norma1 = nn.LayerNorm(cechy)
        self.norma2 = nn.LayerNorm(cechy)
        self.uwaga = nn.MultiheadAttention(cechy, glowy, dropout=porzucanie, batch_first=True)
        self.siec = nn.Sequential(nn.Linear(cechy, 2 * cechy), nn.GELU(), nn.Linear(2 * cechy, cechy))

    def forward(self, pomiary, znane):
        x = self.norma1(pomiary)
        y, _ = self.uwaga(x, x, x, key_padding_mask=~znane, need_weights=False)
        pomiary = pomiary + y
        return pomiary + self.siec(self.norma2(pomiary))
