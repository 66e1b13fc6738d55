import torch
from torch import nn


class DecodificadorLuong(nn.Module):
    """Decodificador LSTM con atención global «general» de Luong e input feeding.

    score(h_t, h_s) = h_t^T W h_s,   h~_t = tanh(W_c [c_t ; h_t])
    """

    def __init__(self, opciones):
        super().__init__()
        d, m = opciones["oculto"], opciones["emb"]
        self.tabla = nn.Embedding(opciones["vocab"], m, padding_idx=0)
        self.celda = nn.LSTMCell(m + d, d)
        self.W = nn.Linear(d, d, bias=False)
        self.Wc = nn.Linear(2 * d, d, bias=False)
        self.salida = nn.Linear(d, opciones["vocab"])

    def atender(self, h, fuente, relleno):
        puntos = torch.einsum("bd,bsd->bs", h, self.W(fuente))
        puntos = puntos.masked_fill(relleno, torch.finfo(puntos.dtype).min)
        pesos = puntos.softmax(1)
        contexto = (pesos[..., None] * fuente).sum(1)
        return torch.tanh(self.Wc(torch.cat((contexto, h), -1))), pesos

    def forward(self, entrada, fuente, relleno, estado):
        """
        entrada: (B, T) índices;  fuente: (B, S, d) salidas del codificador
        relleno: (B, S) bool, True donde la frase fuente ya terminó
        estado:  par (h, c), cada uno (B, d)
        """
        h, c = estado
        tilde = torch.zeros_like(h)
        logits = []
        for y in entrada.unbind(1):
            h, c = self.celda(torch.cat((self.tabla(y), tilde), -1), (h, c))
            tilde, _ = self.atender(h, fuente, relleno)
            logits.append(self.salida(tilde))
        return torch.stack(logits, 1), (h, c)
