"""Codificador de frases do projeto de extensão (notas de aula, bloco 3).

Codificador(d, cabecas)(x, mascara)
    x        (lote, n, d)      vetores das palavras
    mascara  (lote, n) float   máscara ADITIVA: 0.0 = palavra real, -inf = enchimento;
                               cada frase tem pelo menos uma palavra real
    saída    (lote, n, d)

Soma-se primeiro a codificação posicional de "Attention is all you need",
    PE[p, 2i] = sin(p / 10000^(2i/d)),  PE[p, 2i+1] = cos(p / 10000^(2i/d)),
depois uma autoatenção de várias cabeças em que ninguém olha para o enchimento.
(mascara: additive, 0 = real word, -inf = padding.)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def posicoes(n, d):
    p = torch.arange(n, dtype=torch.float32)[:, None]
    dois_i = torch.arange(0, d, 2, dtype=torch.float32)
    tabela = torch.zeros(n, d)
    divisor = 10000.0 ** (2 * dois_i / d)
    tabela[:, 0::2] = torch.sin(p / divisor)
    tabela[:, 1::2] = torch.cos(p / divisor)
    return tabela


class Codificador(nn.Module):
    def __init__(self, d, cabecas):
        super().__init__()
        self.cabecas = cabecas
        self.pergunta = nn.Linear(d, d)
        self.chave = nn.Linear(d, d)
        self.valor = nn.Linear(d, d)
        self.saida = nn.Linear(d, d)

    def forward(self, x, mascara):
        lote, n, d = x.shape
        x = x + posicoes(n, d)

        def partir(t):
            return t.view(lote, n, self.cabecas, d // self.cabecas).transpose(1, 2)

        visivel = mascara.bool()[:, None, None, :]
        y = F.scaled_dot_product_attention(partir(self.pergunta(x)), partir(self.chave(x)),
                                           partir(self.valor(x)), attn_mask=visivel)
        return self.saida(y.transpose(1, 2).reshape(lote, n, d))
