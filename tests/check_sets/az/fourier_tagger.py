"""Classificatore di suoni ambientali: spettrogramma -> FNet -> etichette.

La mescolanza tra i token è la parte reale della FFT in due dimensioni (Lee-Thorp et al.,
2021): non ci sono pesi da imparare, e tutto il resto è come in un encoder normale.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Impostazioni:
    bande: int = 64
    larghezza: int = 96
    blocchi: int = 4
    espansione: int = 3
    etichette: int = 12
    dropout: float = 0.1
    max_frame: int = 400


class MescolaFourier(nn.Module):
    """Re(F_tempo(F_canali(x))), x (batch, tempo, canali)."""

    def __init__(self, norm="ortho"):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return torch.fft.fft2(x.float(), dim=(-2, -1), norm=self.norm).real.to(x.dtype)


class FourierTokenMixer(nn.Module):
    """Un blocco dell'encoder: mescolanza, poi rete per token, post-norm."""

    def __init__(self, imp: Impostazioni):
        super().__init__()
        d = imp.larghezza
        self.mescola = MescolaFourier()
        self.norma1, self.norma2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.rete = nn.Sequential(
            nn.Linear(d, imp.espansione * d), nn.GELU(), nn.Dropout(imp.dropout),
            nn.Linear(imp.espansione * d, d), nn.Dropout(imp.dropout))

    def forward(self, x):
        x = self.norma1(x + self.mescola(x))
        return self.norma2(x + self.rete(x))


class SpecAugment(nn.Module):
    def __init__(self, max_t=20, max_f=8):
        super().__init__()
        self.max_t, self.max_f = max_t, max_f

    def forward(self, x):
        if not self.training:
            return x
        x = x.clone()
        for i in range(x.shape[0]):
            for dim, largo in ((0, self.max_t), (1, self.max_f)):
                n = int(torch.randint(0, largo + 1, (1,)))
                a = int(torch.randint(0, max(1, x.shape[dim + 1] - n), (1,)))
                x[i].narrow(dim, a, min(n, x.shape[dim + 1])).zero_()
        return x


class ClassificatoreSuoni(nn.Module):
    def __init__(self, imp: Impostazioni):
        super().__init__()
        self.imp = imp
        self.augment = SpecAugment()
        self.ingresso = nn.Linear(imp.bande, imp.larghezza)
        self.posizioni = nn.Parameter(torch.randn(1, imp.max_frame, imp.larghezza) * 0.02)
        self.norma = nn.LayerNorm(imp.larghezza)
        self.blocchi = nn.ModuleList(FourierTokenMixer(imp) for _ in range(imp.blocchi))
        self.uscita = nn.Linear(imp.larghezza, imp.etichette)

    def forward(self, spettro):
        """spettro (batch, tempo, bande), logaritmico -> logit (batch, etichette)"""
        x = self.ingresso(self.augment(spettro)) + self.posizioni[:, :spettro.shape[1]]
        x = self.norma(x)
        for b in self.blocchi:
            x = b(x)
        return self.uscita(x.mean(1))


def banco_mel(n_fft, bande, sr=16000):
    """Filtri triangolari, (n_fft // 2 + 1, bande)."""
    def mel(f):
        return 2595 * math.log10(1 + f / 700)
    punti = torch.linspace(mel(0), mel(sr / 2), bande + 2)
    f = 700 * (10 ** (punti / 2595) - 1)
    bin_ = torch.arange(n_fft // 2 + 1) * sr / n_fft
    su = (bin_[:, None] - f[:-2]) / (f[1:-1] - f[:-2])
    giu = (f[2:] - bin_[:, None]) / (f[2:] - f[1:-1])
    return torch.minimum(su, giu).clamp(min=0)


def log_mel(onda, n_fft=512, passo=160, bande=64):
    s = torch.stft(onda, n_fft, passo, window=torch.hann_window(n_fft), return_complex=True).abs() ** 2
    return torch.log(s.transpose(1, 2) @ banco_mel(n_fft, bande) + 1e-6)


if __name__ == "__main__":
    torch.manual_seed(0)
    rete = ClassificatoreSuoni(Impostazioni())
    print(rete(log_mel(torch.randn(2, 16000))).shape)
