"""EKG-Klassifikator: Conv-Stamm, zwei nn.MultiheadAttention-Schichten, CLS-Kopf.

nn.MultiheadAttention laeuft hier mit der Voreinstellung (Zeit zuerst), darum wird am
Anfang einmal nach (T, B, D) gedreht und erst am Kopf wieder auf CLS zugegriffen.
"""
import torch
import torch.nn as nn


class Herz(nn.Module):
    def __init__(self, kanaele=2, dim=24, koepfe=4, klassen=5, p=0.1):
        super().__init__()
        self.stamm = nn.Conv1d(kanaele, dim, 5, stride=4, padding=2)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.ort = nn.Parameter(torch.randn(257, 1, dim) * 0.02)
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(4))
        self.att = nn.ModuleList(nn.MultiheadAttention(dim, koepfe, dropout=p) for _ in range(2))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(2))
        self.kopf = nn.Linear(dim, klassen)

    def forward(self, ekg, laenge):
        """
        ekg (B, kanaele, N) mit N durch 4 teilbar und N <= 1024
        laenge (B,) gueltige Abtastwerte pro Aufnahme, durch 4 teilbar, >= 4 (danach Nullen)
        gibt (B, klassen) Logits zurueck
        """
        x = self.stamm(ekg).permute(2, 0, 1)                       # (T, B, D)
        T, B, D = x.shape
        x = torch.cat([self.cls.expand(1, B, D), x]) + self.ort[:T + 1]
        fuell = torch.arange(T, device=ekg.device)[None] >= (laenge // 4)[:, None]
        fuell = torch.cat([fuell.new_zeros(B, 1), fuell], dim=1)   # CLS bleibt immer sichtbar
        for i in range(2):
            y = self.n[2 * i](x)
            y, _ = self.att[i](y, y, y, key_padding_mask=fuell, need_weights=False)
            x = x + y
            x = x + self.ff[i](self.n[2 * i + 1](x))
        return self.kopf(x[0])
