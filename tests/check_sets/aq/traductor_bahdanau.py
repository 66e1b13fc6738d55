"""Traductor GRU con atención aditiva (Bahdanau, Cho y Bengio, 2015)."""
import torch
import torch.nn as nn


class Codificador(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.puente = nn.Linear(dim, dim)
        self.dim = dim

    def forward(self, fuente, largos):
        e = nn.utils.rnn.pack_padded_sequence(self.emb(fuente), largos.cpu(), batch_first=True, enforce_sorted=False)
        h, fin = self.rnn(e)
        h, _ = nn.utils.rnn.pad_packed_sequence(h, batch_first=True, total_length=fuente.size(1))
        return h, torch.tanh(self.puente(fin[1]))


class Atencion(nn.Module):
    """e_ij = v' tanh(W s_{i-1} + U h_j).

    estado [B, D]; memoria [B, T, 2D]; relleno [B, T] con True en los huecos.
    Cada frase tiene al menos una palabra.
    """

    def __init__(self, dim, interno):
        super().__init__()
        self.W = nn.Linear(dim, interno, bias=False)
        self.U = nn.Linear(2 * dim, interno)
        self.v = nn.Linear(interno, 1, bias=False)

    def preparar(self, memoria):
        return self.U(memoria)

    def forward(self, estado, memoria, uh, relleno):
        e = self.v(torch.tanh(self.W(estado).unsqueeze(1) + uh)).squeeze(-1)
        e = e.masked_fill(relleno, -torch.inf)
        alfa = torch.softmax(e, dim=1)
        return torch.bmm(alfa.unsqueeze(1), memoria).squeeze(1), alfa


class Descodificador(nn.Module):
    def __init__(self, vocab, dim, interno=None):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.atencion = Atencion(dim, interno or dim)
        self.celda = nn.GRUCell(3 * dim, dim)
        self.salida = nn.Linear(4 * dim, vocab)

    def forward(self, destino, estado, memoria, relleno):
        uh = self.atencion.preparar(memoria)
        logits, mapas = [], []
        for t in range(destino.size(1)):
            y = self.emb(destino[:, t])
            ctx, alfa = self.atencion(estado, memoria, uh, relleno)
            estado = self.celda(torch.cat([y, ctx], -1), estado)
            logits.append(self.salida(torch.cat([estado, ctx, y], -1)))
            mapas.append(alfa)
        return torch.stack(logits, 1), torch.stack(mapas, 1)


def perdida(logits, oro):
    return nn.functional.cross_entropy(logits.flatten(0, 1), oro.flatten(), ignore_index=0)
