import torch
import torch.nn as nn


class AtencionAditiva(nn.Module):
    """Atención de Bahdanau, en su forma de concatenación: e_j = v^T tanh(W [s; h_j]).

    estado: (lote, dim_dec), anotaciones: (lote, largo, dim_enc)
    """

    def __init__(self, dim_enc, dim_dec, dim_at):
        super().__init__()
        self.W = nn.Linear(dim_enc + dim_dec, dim_at)
        self.v = nn.Linear(dim_at, 1, bias=False)

    def forward(self, estado, anotaciones):
        repetido = estado.unsqueeze(1).expand(-1, anotaciones.size(1), -1)
        energia = self.W(torch.cat([repetido, anotaciones], dim=2))
        puntajes = self.v(energia).squeeze(2)
        pesos = torch.softmax(puntajes, dim=1)
        contexto = (pesos.unsqueeze(2) * anotaciones).sum(dim=1)
        return contexto, pesos


class Decodificador(nn.Module):
    def __init__(self, vocabulario=30, dim_emb=8, dim_enc=12, dim_dec=10, dim_at=9):
        super().__init__()
        self.emb = nn.Embedding(vocabulario, dim_emb)
        self.atencion = AtencionAditiva(dim_enc, dim_dec, dim_at)
        self.gru = nn.GRUCell(dim_emb + dim_enc, dim_dec)
        self.salida = nn.Linear(dim_dec + dim_enc + dim_emb, vocabulario)

    def paso(self, palabra, estado, anotaciones):
        x = self.emb(palabra)
        contexto, pesos = self.atencion(estado, anotaciones)
        estado = self.gru(torch.cat([x, contexto], 1), estado)
        return self.salida(torch.cat([estado, contexto, x], 1)), estado, pesos
