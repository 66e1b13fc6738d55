"""Codificador de acórdãos com janela deslizante.

Entrada: x (B, L, D), vetores dos tokens do documento.
Cada token i lê exatamente a si mesmo e os `janela - 1` tokens anteriores
(janela = 4 quer dizer: i, i-1, i-2, i-3); tokens futuros não são vistos.
Atenção escalonada por 1/sqrt(d) com várias cabeças.  O dropout nos pesos existe
só durante o treino: em eval() o resultado é determinístico.
Saída: (B, L, D), com conexão residual e layer norm.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class JanelaDeslizante(nn.Module):
    def __init__(self, dim, cabecas, janela, p_drop=0.1):
        super().__init__()
        self.cabecas = cabecas
        self.janela = janela
        self.p_drop = p_drop
        self.proj = nn.Linear(dim, 3 * dim)
        self.saida = nn.Linear(dim, dim)
        self.norma = nn.LayerNorm(dim)

    def mascara(self, L, device):
        """True = pode ler"""
        i = torch.arange(L, device=device).unsqueeze(1)
        j = torch.arange(L, device=device).unsqueeze(0)
        return (j <= i) & (i - j <= self.janela)

    def forward(self, x):
        B, L, D = x.shape
        d = D // self.cabecas
        q, k, v = self.proj(x).split(D, dim=-1)
        q = q.view(B, L, self.cabecas, d).transpose(1, 2)
        k = k.view(B, L, self.cabecas, d).transpose(1, 2)
        v = v.view(B, L, self.cabecas, d).transpose(1, 2)

        pontos = q.matmul(k.transpose(2, 3)) / math.sqrt(d)
        pontos = pontos.masked_fill(~self.mascara(L, x.device), float("-inf"))
        pesos = F.softmax(pontos, dim=-1)
        pesos = F.dropout(pesos, self.p_drop)
        y = pesos.matmul(v).transpose(1, 2).contiguous().view(B, L, D)
        return self.norma(x + self.saida(y))
