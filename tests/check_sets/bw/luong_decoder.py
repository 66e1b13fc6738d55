"""Decodificador seq2seq con atención de Luong ("general") e input feeding.

Proyecto final de PLN: traductor español-quechua. Un paso a la vez.
"""
import torch
import torch.nn as nn


def longitudes_a_mascara(longitudes, T):
    # True en las posiciones reales
    return torch.arange(T, device=longitudes.device)[None, :] < longitudes[:, None]


class Codificador(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.gru = nn.GRU(emb, hid, batch_first=True)

    def forward(self, src, longitudes):
        paq = nn.utils.rnn.pack_padded_sequence(
            self.emb(src), longitudes.cpu(), batch_first=True, enforce_sorted=False)
        sal, h = self.gru(paq)
        sal, _ = nn.utils.rnn.pad_packed_sequence(
            sal, batch_first=True, total_length=src.size(1))
        return sal, h


class PasoDecodificador(nn.Module):
    """h_t = GRU([y_{t-1}; h~_{t-1}]),  score(h_t, h_s) = h_t' W_a h_s,
    h~_t = tanh(W_c [c_t; h_t])."""

    def __init__(self, vocab=30, emb=12, hid=16, enc=None):
        super().__init__()
        enc = enc or hid
        self.hid = hid
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.gru = nn.GRUCell(emb + hid, hid)
        self.W_a = nn.Linear(enc, hid, bias=False)
        self.W_c = nn.Linear(enc + hid, hid, bias=False)
        self.salida = nn.Linear(hid, vocab)

    def atencion(self, h, memoria, mascara):
        puntajes = torch.bmm(self.W_a(memoria), h.unsqueeze(2)).squeeze(2)   # B, T
        puntajes = puntajes.masked_fill(~mascara, float("-inf"))
        alfa = torch.softmax(puntajes, dim=1)
        contexto = torch.bmm(alfa.unsqueeze(1), memoria).squeeze(1)
        return contexto, alfa

    def forward(self, y, estado, memoria, mascara):
        """y: (B,) tokens; estado: (h, h_tilde), ambos (B, hid);
        memoria: (B, T, enc); mascara: (B, T) bool, True = palabra real.
        Cada oración tiene al menos una palabra."""
        h, h_til = estado
        h = self.gru(torch.cat([self.emb(y), h_til], dim=1), h)
        c, alfa = self.atencion(h, memoria, mascara)
        h_til = torch.tanh(self.W_c(torch.cat([c, h], dim=1)))
        return self.salida(h_til), (h, h_til), alfa


if __name__ == "__main__":
    cod, dec = Codificador(30, 12, 16), PasoDecodificador()
    src = torch.tensor([[4, 8, 9, 2], [7, 2, 0, 0]])
    lon = torch.tensor([4, 2])
    mem, h = cod(src, lon)
    estado = (h[0], torch.zeros_like(h[0]))
    y = torch.ones(2, dtype=torch.long)
    for _ in range(3):
        logits, estado, alfa = dec(y, estado, mem, longitudes_a_mascara(lon, 4))
        y = logits.argmax(-1)
    print(alfa)
