"""Übersetzer Deutsch -> Englisch, Decoder mit additiver Aufmerksamkeit."""
import torch
from torch import nn, Tensor


class Aufmerksamkeit(nn.Module):
    """Bahdanau: e_j = v . tanh(W [s ; h_j]), Gewichte = softmax über die Quellwörter j.

    s (B, D), h (B, S, E), ist_wort (B, S) bool: True = echtes Wort, False = Füllzeichen.
    Füllzeichen bekommen kein Gewicht. Gibt die Gewichte (B, S) zurück.
    """

    def __init__(self, enc: int, dec: int):
        super().__init__()
        self.W = nn.Linear(enc + dec, dec)
        self.v = nn.Linear(dec, 1, bias=False)

    def forward(self, s: Tensor, h: Tensor, ist_wort: Tensor) -> Tensor:
        s = s.unsqueeze(1).expand(-1, h.size(1), -1)
        e = self.v(torch.tanh(self.W(torch.cat((s, h), dim=2)))).squeeze(2)
        e = e.masked_fill(ist_wort, -1e10)
        return e.softmax(dim=1)


class DecoderSchritt(nn.Module):
    """Ein Schritt: wort (B,) long, s (B, D), h (B, S, E), ist_wort (B, S)
    -> (logits (B, V), neues s (B, D), gewichte (B, S))."""

    def __init__(self, vokabular: int = 80, emb: int = 12, enc: int = 20, dec: int = 16):
        super().__init__()
        self.emb = nn.Embedding(vokabular, emb)
        self.auf = Aufmerksamkeit(enc, dec)
        self.gru = nn.GRUCell(emb + enc, dec)
        self.aus = nn.Linear(emb + enc + dec, vokabular)

    def forward(self, wort: Tensor, s: Tensor, h: Tensor, ist_wort: Tensor):
        w = self.emb(wort)
        a = self.auf(s, h, ist_wort)
        kontext = torch.einsum("bs,bse->be", a, h)
        s = self.gru(torch.cat((w, kontext), dim=1), s)
        return self.aus(torch.cat((w, kontext, s), dim=1)), s, a
