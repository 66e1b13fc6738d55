import torch
import torch.nn as nn


class DecodificadorLuong(nn.Module):
    """Decodificador GRU con atención global de Luong ("general") y realimentación.

    memoria    (B, S, enc)  salidas del codificador
    longitudes (B,)         número de palabras reales de cada frase (>= 1)
    palabras   (B, T)       entrada con forzado
    Devuelve logits (B, T, vocab) y pesos (B, T, S).
    """

    def __init__(self, vocab, emb, hid, enc):
        super().__init__()
        self.hid = hid
        self.emb = nn.Embedding(vocab, emb)
        self.celda = nn.GRUCell(emb + hid, hid)
        self.Wa = nn.Linear(enc, hid, bias=False)
        self.Wc = nn.Linear(enc + hid, hid, bias=False)
        self.salida = nn.Linear(hid, vocab)

    def forward(self, palabras, memoria, longitudes, h=None):
        B, S, _ = memoria.shape
        if h is None:
            h = memoria.new_zeros(B, self.hid)
        h_moño = memoria.new_zeros(B, self.hid)
        claves = self.Wa(memoria)
        fuera = torch.arange(S, device=memoria.device).unsqueeze(0) >= longitudes.unsqueeze(1)
        logits, pesos = [], []
        for paso in self.emb(palabras).unbind(1):
            h = self.celda(torch.cat((paso, h_moño), -1), h)
            puntos = torch.einsum("bsh,bh->bs", claves, h)
            a = torch.softmax(puntos.masked_fill(fuera, float("-inf")), dim=1)
            contexto = torch.einsum("bs,bse->be", a, memoria)
            h_moño = torch.tanh(self.Wc(torch.cat((contexto, h), -1)))
            logits.append(self.salida(h_moño))
            pesos.append(a)
        return torch.stack(logits, 1), torch.stack(pesos, 1)
