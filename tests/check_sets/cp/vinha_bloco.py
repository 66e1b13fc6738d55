"""Bloco codificador para séries de sensores da vinha (humidade, temperatura, NDVI).

Cada talhão tem um número diferente de leituras, por isso as séries vêm
preenchidas até ao comprimento máximo do lote.

    leituras : (lote, tempo, canais)
    valida   : (lote, tempo) bool, True = leitura verdadeira, False = enchimento

Não é causal: trabalhamos com a campanha completa, já terminada.  Um talhão sem
nenhuma leitura recebe zero da atenção (só passa a ligação residual).
"""
import math

import torch
from torch import nn


class AtencaoDeTalhao(nn.Module):
    def __init__(self, canais: int = 32, cabecas: int = 4, abandono: float = 0.1):
        super().__init__()
        if canais % cabecas:
            raise ValueError("canais tem de ser múltiplo de cabecas")
        self.cabecas = cabecas
        self.largura = canais // cabecas
        self.pergunta = nn.Linear(canais, canais)
        self.chave = nn.Linear(canais, canais)
        self.valor = nn.Linear(canais, canais)
        self.saida = nn.Linear(canais, canais, bias=False)
        self.abandono = nn.Dropout(abandono)

    def _partir(self, t):
        lote, tempo, _ = t.shape
        return t.view(lote, tempo, self.cabecas, self.largura).transpose(1, 2)

    def forward(self, leituras, valida=None):
        lote, tempo, canais = leituras.shape
        p = self._partir(self.pergunta(leituras))
        c = self._partir(self.chave(leituras))
        v = self._partir(self.valor(leituras))

        notas = p @ c.transpose(-2, -1) / math.sqrt(self.largura)
        if valida is not None:
            olhar = valida.bool()[:, None, None, :]
            notas = notas.masked_fill(~olhar, torch.finfo(notas.dtype).min)
        pesos = notas.softmax(dim=-1)
        if valida is not None:
            # só muda alguma coisa nos talhões completamente vazios
            pesos = pesos * olhar
        pesos = self.abandono(pesos)

        junto = (pesos @ v).transpose(1, 2).reshape(lote, tempo, canais)
        return self.saida(junto)


class BlocoDeVinha(nn.Module):
    """Pré-normalização: x + atenção(norma(x)), depois x + mlp(norma(x))."""

    def __init__(self, canais: int = 32, cabecas: int = 4, expansao: int = 2, abandono: float = 0.1):
        super().__init__()
        self.norma1 = nn.LayerNorm(canais)
        self.atencao = AtencaoDeTalhao(canais, cabecas, abandono)
        self.norma2 = nn.LayerNorm(canais)
        self.mlp = nn.Sequential(
            nn.Linear(canais, expansao * canais),
            nn.GELU(),
            nn.Dropout(abandono),
            nn.Linear(expansao * canais, canais),
        )

    def forward(self, leituras, valida=None):
        x = leituras + self.atencao(self.norma1(leituras), valida)
        return x + self.mlp(self.norma2(x))
