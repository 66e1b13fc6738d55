"""Previsão de carga elétrica: encoder Transformer com uma cabeça linear.

Entradas: [lote, passos, variáveis]; saída: as próximas `horizonte` cargas.
Posições: senos e cossenos de Vaswani et al. (2017),
    PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i+1) = cos(p / 10000^(2i/d)).
O dropout nos pesos de atenção só vale durante o treino.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def tabela_posicoes(passos, d):
    pos = torch.arange(passos, dtype=torch.float32).unsqueeze(1)
    i = torch.arange(0, d, 2, dtype=torch.float32)
    freq = torch.exp(-math.log(10000.0) * 2 * i / d)
    pe = torch.zeros(passos, d)
    pe[:, 0::2] = torch.sin(pos * freq)
    pe[:, 1::2] = torch.cos(pos * freq)
    return pe


class Atencao(nn.Module):
    """Autoatenção bidirecional com `n_cab` cabeças sobre os passos de tempo."""

    def __init__(self, d, n_cab, p_drop, max_passos=512):
        super().__init__()
        self.n_cab = n_cab
        self.d_cab = d // n_cab
        self.p_drop = p_drop
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.saida = nn.Linear(d, d)
        self.register_buffer("pe", tabela_posicoes(max_passos, d), persistent=False)

    def _dobra(self, x):
        # cabeças e lote numa só dimensão
        b, t, _ = x.shape
        x = x.view(b, t, self.n_cab, self.d_cab)
        return x.permute(2, 0, 1, 3).reshape(-1, t, self.d_cab)

    def forward(self, x):
        b, t, d = x.shape
        xp = x + self.pe[:t]
        q, k, v = self._dobra(self.q(xp)), self._dobra(self.k(xp)), self._dobra(self.v(x))
        pesos = torch.baddbmm(
            torch.zeros(1, 1, 1, dtype=x.dtype), q, k.transpose(1, 2), beta=0, alpha=self.d_cab**-0.5
        )
        pesos = F.softmax(pesos, dim=-1)
        pesos = F.dropout(pesos, p=self.p_drop)
        y = torch.bmm(pesos, v)
        y = y.view(b, self.n_cab, t, self.d_cab).transpose(1, 2).reshape(b, t, d)
        return self.saida(y)


class Camada(nn.Module):
    def __init__(self, d, n_cab, p_drop):
        super().__init__()
        self.at = Atencao(d, n_cab, p_drop)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Dropout(p_drop), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        x = self.n1(x + self.at(x))
        return self.n2(x + self.ff(x))


class Previsor(nn.Module):
    def __init__(self, variaveis=6, d=32, n_cab=4, camadas=2, horizonte=24, p_drop=0.1):
        super().__init__()
        self.entrada = nn.Linear(variaveis, d)
        self.camadas = nn.Sequential(*(Camada(d, n_cab, p_drop) for _ in range(camadas)))
        self.cabeca = nn.Linear(d, horizonte)

    def forward(self, x):
        media = x[..., :1].mean(1, keepdim=True)
        h = self.camadas(self.entrada(x))
        return self.cabeca(h[:, -1]) + media.squeeze(1)


def pinball(pred, alvo, tau=0.5):
    e = alvo - pred
    return torch.maximum(tau * e, (tau - 1) * e).mean()


if __name__ == "__main__":
    m = Previsor()
    print(pinball(m(torch.randn(4, 48, 6)), torch.randn(4, 24)))
