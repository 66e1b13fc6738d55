import torch
from torch import nn


class AtencionAditiva(nn.Module):
    """Bahdanau: e_j = v^T tanh(W s + U h_j), una consulta por paso."""

    def __init__(self, dim_estado, dim_memoria, dim_oculta):
        super().__init__()
        self.W = nn.Linear(dim_estado, dim_oculta, bias=False)
        self.U = nn.Linear(dim_memoria, dim_oculta)
        self.v = nn.Linear(dim_oculta, 1, bias=False)

    def forward(self, estado, memoria, longitudes):
        """
        estado      (B, S)
        memoria     (B, T, M)
        longitudes  (B,) enteros >= 1; los pasos t >= longitud son relleno
        devuelve    contexto (B, M), pesos (B, T)
        """
        e = self.v(torch.tanh(self.W(estado).unsqueeze(1) + self.U(memoria))).squeeze(-1)
        t = torch.arange(memoria.size(1), device=memoria.device)
        relleno = t[None, :] >= longitudes[:, None]
        pesos = e.masked_fill(relleno, float("-inf")).softmax(dim=1)
        contexto = torch.bmm(pesos.unsqueeze(1), memoria).squeeze(1)
        return contexto, pesos


class Decodificador(nn.Module):
    def __init__(self, vocab, dim_emb, dim_estado, dim_memoria):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim_emb)
        self.atencion = AtencionAditiva(dim_estado, dim_memoria, dim_estado)
        self.celda = nn.GRUCell(dim_emb + dim_memoria, dim_estado)
        self.salida = nn.Linear(dim_estado + dim_memoria, vocab)

    def forward(self, palabras, estado, memoria, longitudes):
        logits = []
        for t in range(palabras.size(1)):
            c, _ = self.atencion(estado, memoria, longitudes)
            estado = self.celda(torch.cat([self.emb(palabras[:, t]), c], -1), estado)
            logits.append(self.salida(torch.cat([estado, c], -1)))
        return torch.stack(logits, 1), estado
