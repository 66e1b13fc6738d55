import torch
from torch import nn


class ProdutoFusao(nn.Module):
    """A descrição do produto lê as regiões da foto.

    texto (B, T, D), regioes (B, R, E) -> (B, T, D)
    """

    def __init__(self, D, E, cabecas=4):
        super().__init__()
        self.cabecas, self.d = cabecas, D // cabecas
        self.norma = nn.LayerNorm(D)
        self.pergunta = nn.Linear(D, D)
        self.chave = nn.Linear(E, D)
        self.valor = nn.Linear(E, D)
        self.saida = nn.Linear(D, D)
        self.porta = nn.Parameter(torch.ones(1))

    def forward(self, texto, regioes):
        B, T, D = texto.shape
        R = regioes.shape[1]
        p = self.pergunta(self.norma(texto)).view(B, T, self.cabecas, self.d)
        c = self.chave(regioes).view(B, R, self.cabecas, self.d)
        w = self.valor(regioes).view(B, R, self.cabecas, self.d)
        a = torch.einsum("bthd,brhd->bhtr", p, c) / self.d ** 0.5
        a = a.softmax(dim=-1)
        lido = torch.einsum("bhtr,brhd->bthd", a, c).reshape(B, T, D)
        return texto + torch.tanh(self.porta) * self.saida(lido)
