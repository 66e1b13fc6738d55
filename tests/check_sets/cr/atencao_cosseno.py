import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class AtencaoCosseno(nn.Module):
    """Atencao por cosseno com temperatura aprendida (Swin V2, sec. 3.2), para recortes de satelite.

    logits = cos(q_i, k_j) * exp(tau_h), com exp(tau_h) limitado a 100; nao ha 1/sqrt(d).
    Entrada e saida: (lote, altura, largura, canais).
    """

    def __init__(self, canais, cabecas=4):
        super().__init__()
        self.cabecas = cabecas
        self.para_qkv = nn.Linear(canais, canais * 3)
        self.saida = nn.Linear(canais, canais)
        self.tau = nn.Parameter(torch.full((cabecas, 1, 1), math.log(10.0)))

    def forward(self, imagem):
        n, a, l, c = imagem.shape
        x = imagem.reshape(n, a * l, c)
        consulta, chave, valor = (
            t.reshape(n, a * l, self.cabecas, -1).transpose(1, 2)
            for t in self.para_qkv(x).tensor_split(3, dim=-1)
        )
        cosseno = F.normalize(consulta, dim=-1) @ F.normalize(chave, dim=-1).transpose(2, 3)
        temperatura = self.tau.clamp(max=math.log(100.0)).exp()
        pesos = (cosseno * temperatura).softmax(dim=3)
        mistura = torch.matmul(pesos, valor).permute(0, 2, 1, 3).reshape(n, a, l, c)
        return self.saida(mistura)
