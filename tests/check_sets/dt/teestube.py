"""Die Teestube: Gäste, Kannen, Tassen.

Teestube(duft, tische) ist ein gewöhnlicher Mehrkopf-Mischer über eine Reihe von Gästen.

    gaeste (B, N, duft), stumm (B, N) bool: True = der Gast ist nicht da; er darf in keine
    Mischung eingehen, die übrigen teilen sich die ganze Tasse (Summe der Anteile = 1).
    Mindestens ein Gast je Runde ist da.  Rückgabe (B, N, duft)

Gewichtsformat (so liegen die Dateien der alten Teestube vor, bitte nicht ändern):
`kanne.weight` hat 3*duft Zeilen. Die ersten duft Zeilen machen die Frage ALLER Tische (Tisch
0 zuerst), die nächsten duft Zeilen das Angebot, die letzten den Tee. Je Tisch:
softmax(Frage Angebot^T / sqrt(duft/tische)) Tee, dann die Tische nebeneinander durch `tasse`.
"""
import torch
from torch import nn


class Teestube(nn.Module):
    def __init__(self, duft=32, tische=4):
        super().__init__()
        self.tische, self.blatt = tische, duft // tische
        self.kanne = nn.Linear(duft, 3 * duft)
        self.tasse = nn.Linear(duft, duft)

    def eingiessen(self, gaeste):
        B, N, _ = gaeste.shape
        sud = self.kanne(gaeste).view(B, N, self.tische, 3, self.blatt)
        return sud.permute(3, 0, 2, 1, 4)

    def forward(self, gaeste, stumm):
        B, N, duft = gaeste.shape
        frage, angebot, tee = self.eingiessen(gaeste)
        neigung = torch.matmul(frage, angebot.mT) * self.blatt ** -0.5
        anteil = torch.softmax(neigung, dim=-1)
        anteil = anteil * (~stumm)[:, None, None, :].to(anteil.dtype)
        schluck = torch.matmul(anteil, tee)
        return self.tasse(schluck.transpose(1, 2).reshape(B, N, duft))


if __name__ == "__main__":
    stube = Teestube()
    runde = torch.randn(2, 5, 32)
    fort = torch.tensor([[False] * 5, [False, False, True, True, True]])
    print(stube(runde, fort).shape)
