"""Lista 4 de Aprendizado Profundo: codificador Transformer (Vaswani et al., 2017) do zero.

Classificação de comentários em português. Codificação posicional senoidal:
    PE(pos, 2i)   = sen(pos / 10000^(2i/d))
    PE(pos, 2i+1) = cos(pos / 10000^(2i/d))
Pós-normalização, como no artigo. Palavras de índice 0 são preenchimento.
"""
import math
import torch
import torch.nn as nn


class CodificacaoPosicional(nn.Module):
    def __init__(self, d_modelo, max_len=200):
        super().__init__()
        tabela = torch.zeros(max_len, d_modelo)
        for pos in range(max_len):
            for i in range(0, d_modelo, 2):
                angulo = pos / (10000 ** ((2 * i) / d_modelo))
                tabela[pos, i] = math.sin(angulo)
                tabela[pos, i + 1] = math.cos(angulo)
        self.register_buffer("tabela", tabela)

    def forward(self, x):
        return x + self.tabela[: x.size(1)]


class Atencao(nn.Module):
    def __init__(self, d_modelo, n_cabecas, dropout):
        super().__init__()
        self.n = n_cabecas
        self.d_k = d_modelo // n_cabecas
        self.wq = nn.Linear(d_modelo, d_modelo)
        self.wk = nn.Linear(d_modelo, d_modelo)
        self.wv = nn.Linear(d_modelo, d_modelo)
        self.wo = nn.Linear(d_modelo, d_modelo)
        self.drop = nn.Dropout(dropout)

    def separa(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.n, self.d_k).transpose(1, 2)

    def forward(self, x, preenchimento):
        q, k, v = self.separa(self.wq(x)), self.separa(self.wk(x)), self.separa(self.wv(x))
        pontos = q @ k.transpose(-2, -1) / math.sqrt(self.d_k)
        pontos = pontos.masked_fill(preenchimento[:, None, None, :], -1e9)
        pesos = self.drop(torch.softmax(pontos, dim=-1))
        y = (pesos @ v).transpose(1, 2).contiguous()
        return self.wo(y.view(x.size(0), x.size(1), -1))


class Camada(nn.Module):
    def __init__(self, d_modelo, n_cabecas, dropout):
        super().__init__()
        self.atencao = Atencao(d_modelo, n_cabecas, dropout)
        self.ffn = nn.Sequential(
            nn.Linear(d_modelo, 4 * d_modelo), nn.ReLU(), nn.Linear(4 * d_modelo, d_modelo))
        self.n1 = nn.LayerNorm(d_modelo)
        self.n2 = nn.LayerNorm(d_modelo)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, preenchimento):
        x = self.n1(x + self.drop(self.atencao(x, preenchimento)))
        return self.n2(x + self.drop(self.ffn(x)))


class ClassificadorDeTexto(nn.Module):
    def __init__(self, vocab, n_classes, d_modelo=32, n_cabecas=4, n_camadas=2, dropout=0.1):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_modelo, padding_idx=0)
        self.d_modelo = d_modelo
        self.posicao = CodificacaoPosicional(d_modelo)
        self.camadas = nn.ModuleList(Camada(d_modelo, n_cabecas, dropout) for _ in range(n_camadas))
        self.saida = nn.Linear(d_modelo, n_classes)

    def forward(self, ids):
        preenchimento = ids == 0
        x = self.posicao(self.emb(ids) * math.sqrt(self.d_modelo))
        for camada in self.camadas:
            x = camada(x, preenchimento)
        # média só das palavras reais
        real = (~preenchimento).unsqueeze(-1).float()
        return self.saida((x * real).sum(1) / real.sum(1).clamp(min=1))
