# Trabajo práctico final - Aprendizaje Profundo
# "Crucigrama": dada una definición, decidir la cantidad de letras de la respuesta.
#
# Implementamos nosotros mismos el codificador del Transformer (un bloque), sin nn.MultiheadAttention.
#   - codificación posicional sinusoidal del paper:
#         PE(pos, 2i)   = sin(pos / 10000^(2i/d))
#         PE(pos, 2i+1) = cos(pos / 10000^(2i/d))
#   - las cabezas van plegadas en el lote: (lote * cabezas, largo, d)
#   - el relleno (token 0) no se atiende
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

RELLENO = 0
VOCAB = ["<pad>"] + list("abcdefghijklmnñopqrstuvwxyzáéíóúü ,;:()")
INDICE = {c: i for i, c in enumerate(VOCAB)}


def tokenizar(definiciones):
    largo = max(len(d) for d in definiciones)
    x = torch.zeros(len(definiciones), largo, dtype=torch.long)
    for n, d in enumerate(definiciones):
        for m, c in enumerate(d.lower()):
            x[n, m] = INDICE.get(c, INDICE[" "])
    return x


def codificacion_posicional(largo, d_modelo):
    pe = torch.zeros(largo, d_modelo)
    for pos in range(largo):
        for i in range(0, d_modelo, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (2 * i / d_modelo))
            pe[pos, i + 1] = math.cos(pos / 10000 ** (2 * i / d_modelo))
    return pe


class Codificador(nn.Module):
    """tokens (lote, largo) -> (lote, largo, d_modelo)"""

    def __init__(self, vocab=len(VOCAB), d_modelo=32, cabezas=4, maximo=200):
        super().__init__()
        self.h = cabezas
        self.d = d_modelo // cabezas
        self.d_modelo = d_modelo
        self.embedding = nn.Embedding(vocab, d_modelo, padding_idx=RELLENO)
        self.register_buffer("pe", codificacion_posicional(maximo, d_modelo))
        self.W_q = nn.Linear(d_modelo, d_modelo)
        self.W_k = nn.Linear(d_modelo, d_modelo)
        self.W_v = nn.Linear(d_modelo, d_modelo)
        self.W_o = nn.Linear(d_modelo, d_modelo)
        self.ff = nn.Sequential(nn.Linear(d_modelo, 64), nn.ReLU(), nn.Linear(64, d_modelo))
        self.norma1 = nn.LayerNorm(d_modelo)
        self.norma2 = nn.LayerNorm(d_modelo)

    def plegar(self, x):
        B, L, _ = x.shape
        x = x.view(B, L, self.h, self.d).transpose(1, 2)
        return x.reshape(B * self.h, L, self.d)

    def desplegar(self, x, B):
        L = x.size(1)
        x = x.view(self.h, B, L, self.d).permute(1, 2, 0, 3)
        return x.reshape(B, L, self.d_modelo)

    def atencion(self, x, relleno):
        B = x.size(0)
        q, k, v = self.plegar(self.W_q(x)), self.plegar(self.W_k(x)), self.plegar(self.W_v(x))
        puntajes = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d)
        mascara = relleno.repeat_interleave(self.h, dim=0)[:, None, :]
        puntajes.masked_fill(mascara, -1e9)
        pesos = F.softmax(puntajes, dim=-1)
        return self.W_o(self.desplegar(torch.bmm(pesos, v), B))

    def forward(self, tokens):
        relleno = tokens == RELLENO
        x = self.embedding(tokens) * math.sqrt(self.d_modelo)
        x = x + self.pe[: tokens.size(1)]
        x = self.norma1(x + self.atencion(x, relleno))
        return self.norma2(x + self.ff(x))


class CuantasLetras(nn.Module):
    def __init__(self, maximo=15):
        super().__init__()
        self.codificador = Codificador()
        self.salida = nn.Linear(32, maximo)

    def forward(self, tokens):
        h = self.codificador(tokens)
        return self.salida(h[:, 0])


if __name__ == "__main__":
    torch.manual_seed(0)
    x = tokenizar(["ave corredora", "rio de italia", "metal precioso (pl.)"])
    y = torch.tensor([7, 1, 3])
    red = CuantasLetras()
    opt = torch.optim.Adam(red.parameters(), 1e-3)
    for paso in range(20):
        perdida = F.cross_entropy(red(x), y)
        opt.zero_grad()
        perdida.backward()
        opt.step()
    print(perdida.item())
