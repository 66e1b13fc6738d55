# Warstwa modelu kursów: świeca widzi tylko siebie i przeszłość, im dalej tym słabiej.
import torch
import torch.nn as nn


class WarstwaSwiec(nn.Module):
    """swiece: (partia, czas, cechy) -> ten sam kształt; glowice musi być potęgą dwójki."""

    def __init__(self, cechy: int, glowice: int = 4):
        super().__init__()
        assert glowice & (glowice - 1) == 0 and cechy % glowice == 0
        self.glowice = glowice
        self.wym = cechy // glowice
        self.pytania = nn.Linear(cechy, cechy)
        self.klucze = nn.Linear(cechy, cechy)
        self.wartosci = nn.Linear(cechy, cechy)
        self.wyjscie = nn.Linear(cechy, cechy)
        nachylenia = 2.0 ** (-8.0 * torch.arange(1, glowice + 1) / glowice)
        self.register_buffer("nachylenia", nachylenia.view(-1, 1, 1))

    def _dziel(self, x):
        p, c, _ = x.shape
        return x.view(p, c, self.glowice, self.wym).transpose(1, 2)

    def forward(self, swiece):
        p, c, f = swiece.shape
        q = self._dziel(self.pytania(swiece))
        k = self._dziel(self.klucze(swiece))
        v = self._dziel(self.wartosci(swiece))
        krok = torch.arange(c, device=swiece.device)
        odstep = krok[:, None] - krok[None, :]
        oceny = torch.matmul(q, k.transpose(2, 3)) / self.wym ** 0.5
        oceny = oceny - self.nachylenia * odstep
        oceny = oceny.masked_fill(odstep < 0, float("-inf"))
        wagi = torch.softmax(oceny, dim=-1)
        wynik = torch.matmul(wagi, v).transpose(1, 2).contiguous().view(p, c, f)
        return self.wyjscie(wynik)
