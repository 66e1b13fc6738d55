# Decodificador no estilo Informer para séries temporais (trabalho de mestrado)
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Atencao(nn.Module):
    def __init__(self, d, cabecas, queda):
        super().__init__()
        self.c, self.queda = cabecas, queda
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, fonte, futuro=None):
        B, L, d = x.shape
        S = fonte.shape[1]
        q = self.wq(x).view(B, L, self.c, -1)
        k = self.wk(fonte).view(B, S, self.c, -1)
        v = self.wv(fonte).view(B, S, self.c, -1)
        escores = torch.einsum("blhe,bshe->bhls", q, k) / math.sqrt(q.shape[-1])
        if futuro is not None:
            escores = escores.masked_fill(futuro, float("-inf"))
        A = F.dropout(torch.softmax(escores, dim=-1), self.queda, self.training)
        return self.wo(torch.einsum("bhls,bshd->blhd", A, v).reshape(B, L, d))


class DecodificadorPrevisao(nn.Module):
    """x (B, L, canais): contexto seguido do horizonte zerado; memoria (B, S, d) do codificador.

    Cada passo do decodificador usa apenas a si mesmo e os passos anteriores. Saída (B, L, canais).
    """

    def __init__(self, canais=3, d=32, cabecas=4, queda=0.05):
        super().__init__()
        self.entrada = nn.Conv1d(canais, d, 1)
        self.propria = Atencao(d, cabecas, queda)
        self.cruzada = Atencao(d, cabecas, queda)
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.saida = nn.Linear(d, canais)

    def forward(self, x, memoria):
        h = self.entrada(x.transpose(1, 2)).transpose(1, 2)
        L = h.shape[1]
        futuro = torch.ones(L, L, dtype=torch.bool, device=h.device).triu(diagonal=2)
        h = self.n1(h + self.propria(h, h, futuro))
        h = self.n2(h + self.cruzada(h, memoria))
        h = self.n3(h + self.mlp(h))
        return self.saida(h)
