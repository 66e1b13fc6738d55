"""Vorlesung "Sprachmodelle", Kapitel 9: ein kleines GPT in einer Datei.

Aufbau: Einbettung + gelernte Positionen -> N Blöcke (Pre-LN) -> LayerNorm -> Logits.
Ein Wort sieht nur sich selbst und die Wörter davor.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, breite, koepfe, p):
        super().__init__()
        self.koepfe, self.p = koepfe, p
        self.norm1, self.norm2 = nn.LayerNorm(breite), nn.LayerNorm(breite)
        self.qkv = nn.Linear(breite, 3 * breite, bias=False)
        self.aus = nn.Linear(breite, breite, bias=False)
        self.mlp = nn.Sequential(nn.Linear(breite, 4 * breite), nn.GELU(),
                                 nn.Linear(4 * breite, breite), nn.Dropout(p))

    def aufmerksamkeit(self, x):
        B, T, C = x.shape
        # Reihenfolge der Zeilen von qkv: erst alle q, dann alle k, dann alle v
        q, k, v = self.qkv(x).split(C, dim=-1)
        q, k, v = (t.reshape(B, T, self.koepfe, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        return self.aus(y.permute(0, 2, 1, 3).reshape(B, T, C))

    def forward(self, x):
        x = x + self.aufmerksamkeit(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class KleinesGPT(nn.Module):
    """ids (B, T) ganze Zahlen, T <= fenster -> Logits (B, T, wortschatz).

    Logits an Stelle t hängen nur von ids[:, :t+1] ab. Im eval()-Modus ohne Dropout.
    Jeder Kopf: softmax(q k^T / sqrt(breite / koepfe)) v.
    """

    def __init__(self, wortschatz, fenster, breite=32, koepfe=4, bloecke=2, p=0.1):
        super().__init__()
        self.wort = nn.Embedding(wortschatz, breite)
        self.ort = nn.Embedding(fenster, breite)
        self.bloecke = nn.ModuleList(Block(breite, koepfe, p) for _ in range(bloecke))
        self.norm = nn.LayerNorm(breite)
        self.kopf = nn.Linear(breite, wortschatz, bias=False)
        self.kopf.weight = self.wort.weight          # geteilte Gewichte

    def forward(self, ids):
        x = self.wort(ids) + self.ort(torch.arange(ids.size(1), device=ids.device))
        for block in self.bloecke:
            x = block(x)
        return self.kopf(self.norm(x))
