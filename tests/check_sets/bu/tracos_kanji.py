"""Ditado de kanji: ouve-se a leitura, o modelo desenha os tracos um a um.

Atencao do tipo "general" de Luong et al. (2015): score(h, m) = h^T W m, sem
divisao pela raiz da dimensao (assim e no artigo), e vetor de atencao
a = tanh(W_c [c; h]), que volta a entrada do passo seguinte (input feeding).
"""
import torch
import torch.nn as nn


def mascara_de_comprimento(comprimentos, maximo):
    """True nas posicoes validas. [B] -> [B, maximo]"""
    passos = torch.arange(maximo, device=comprimentos.device)
    return passos.unsqueeze(0) < comprimentos.unsqueeze(1)


class Ouvido(nn.Module):
    """Codifica as silabas da leitura."""

    def __init__(self, silabas, dim):
        super().__init__()
        self.emb = nn.Embedding(silabas, dim)
        self.gru = nn.GRU(dim, dim // 2, bidirectional=True, batch_first=True)

    def forward(self, x):
        saida, _ = self.gru(self.emb(x))
        return saida


class DecodificadorDeTracos(nn.Module):
    """
    memoria       [B, S, dim]   saida do Ouvido
    comprimentos  [B]           silabas validas (pelo menos uma)
    tracos        [B, T]        tracos anteriores (teacher forcing)
    devolve       logits [B, T, n_tracos], pesos [B, T, S]
    """

    def __init__(self, n_tracos=20, dim=16):
        super().__init__()
        self.emb = nn.Embedding(n_tracos, dim)
        self.celula = nn.LSTMCell(2 * dim, dim)
        self.W_a = nn.Linear(dim, dim, bias=False)
        self.W_c = nn.Linear(2 * dim, dim, bias=False)
        self.sai = nn.Linear(dim, n_tracos)
        self.dim = dim

    def atender(self, h, memoria, valido):
        nota = torch.bmm(self.W_a(memoria), h.unsqueeze(2)).squeeze(2)
        nota = nota.masked_fill(~valido, float("-inf"))
        pesos = torch.softmax(nota, dim=1)
        contexto = torch.bmm(pesos.unsqueeze(1), memoria).squeeze(1)
        return contexto, pesos

    def forward(self, memoria, comprimentos, tracos):
        B, S, _ = memoria.shape
        valido = mascara_de_comprimento(comprimentos, S)
        h = memoria.new_zeros(B, self.dim)
        c = memoria.new_zeros(B, self.dim)
        a = memoria.new_zeros(B, self.dim)
        logits, todos = [], []
        for t in range(tracos.shape[1]):
            entrada = torch.cat([self.emb(tracos[:, t]), a], dim=1)
            h, c = self.celula(entrada, (h, c))
            contexto, pesos = self.atender(h, memoria, valido)
            a = torch.tanh(self.W_c(torch.cat([contexto, h], dim=1)))
            logits.append(self.sai(a))
            todos.append(pesos)
        return torch.stack(logits, 1), torch.stack(todos, 1)
