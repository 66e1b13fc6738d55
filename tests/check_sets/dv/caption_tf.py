"""Legendas de imagens: camada de decodificador que lê as regiões do detector."""
import torch
import torch.nn as nn


class LeituraRegioes(nn.Module):
    """Atenção cruzada palavras -> regiões, uma cabeça por fatia de canais.

    palavras (B, T, D), regioes (B, R, D)
    existe   (B, R) float, 1 = região real, 0 = vazia (cada imagem tem pelo menos uma real)
    Os pesos de cada palavra são um softmax (escala 1/sqrt(d)) sobre as regiões reais e somam 1;
    regiões vazias têm peso 0. Devolve (saida (B, T, D), pesos (B, H, T, R)).
    """

    def __init__(self, D=32, H=4):
        super().__init__()
        self.H, self.d = H, D // H
        self.fq = nn.Linear(D, D)
        self.fk = nn.Linear(D, D)
        self.fv = nn.Linear(D, D)
        self.fo = nn.Linear(D, D)

    def forward(self, palavras, regioes, existe):
        B, T, D = palavras.shape
        R = regioes.shape[1]
        q = self.fq(palavras).view(B, T, self.H, self.d).permute(0, 2, 1, 3)
        k = self.fk(regioes).view(B, R, self.H, self.d).permute(0, 2, 3, 1)
        v = self.fv(regioes).view(B, R, self.H, self.d).permute(0, 2, 1, 3)
        pesos = torch.softmax(torch.matmul(q, k) / self.d ** 0.5, -1)
        pesos = pesos * existe[:, None, None]
        saida = torch.matmul(pesos, v).permute(0, 2, 1, 3).contiguous().view(B, T, D)
        return self.fo(saida), pesos


class CamadaLegenda(nn.Module):
    """Residual + LayerNorm em volta da leitura, depois MLP. Mesmos argumentos; devolve (B, T, D)."""

    def __init__(self, D=32, H=4):
        super().__init__()
        self.leitura = LeituraRegioes(D, H)
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, palavras, regioes, existe):
        lido, _ = self.leitura(palavras, regioes, existe)
        x = self.n1(palavras + lido)
        return self.n2(x + self.mlp(x))
