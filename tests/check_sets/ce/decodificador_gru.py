"""Decodificador con atención de Bahdanau et al. (2015).

Práctica 4 de Procesamiento del Lenguaje Natural: traductor español-gallego.
En cada paso i se calcula, sobre las anotaciones h_j del codificador,

    e_ij = v^T tanh(W s_{i-1} + U h_j)
    a_ij = softmax_j(e_ij)
    c_i  = sum_j a_ij h_j

y la GRU recibe la palabra anterior junto con el contexto c_i. Las posiciones
de relleno de la frase de entrada (a partir de ``longitudes``) no reciben peso.
"""
import torch
import torch.nn as nn


class AtencionAditiva(nn.Module):
    def __init__(self, dim_estado, dim_anot, dim_oculta):
        super().__init__()
        self.W = nn.Linear(dim_estado, dim_oculta, bias=False)
        self.U = nn.Linear(dim_anot, dim_oculta, bias=True)
        self.v = nn.Linear(dim_oculta, 1, bias=False)

    def precalcular(self, anotaciones):
        # U h_j no depende del paso: se calcula una sola vez por frase
        return self.U(anotaciones)

    def forward(self, estado, anotaciones, claves, valido):
        energia = self.v(torch.tanh(self.W(estado).unsqueeze(1) + claves)).squeeze(-1)
        energia = energia.masked_fill(~valido, float("-inf"))
        pesos = torch.softmax(energia, dim=1)                    # (lote, origen)
        contexto = torch.einsum("bs,bsd->bd", pesos, anotaciones)
        return contexto, pesos


class Decodificador(nn.Module):
    """Decodifica con la palabra correcta como entrada (teacher forcing).

    forward(objetivo, anotaciones, longitudes) -> (logits, pesos)
        objetivo     (lote, T)     palabras de entrada, empiezan por <s>
        anotaciones  (lote, S, A)  salida del codificador bidireccional
        longitudes   (lote,)       número de palabras reales de cada origen, >= 1
        logits       (lote, T, vocab);  pesos (lote, T, S)
    """

    def __init__(self, vocab, dim_emb=32, dim_estado=48, dim_anot=64, dim_oculta=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim_emb)
        self.atencion = AtencionAditiva(dim_estado, dim_anot, dim_oculta)
        self.gru = nn.GRUCell(dim_emb + dim_anot, dim_estado)
        self.inicio = nn.Linear(dim_anot // 2, dim_estado)
        self.salida = nn.Linear(dim_estado + dim_anot + dim_emb, vocab)

    def estado_inicial(self, anotaciones):
        # la mitad "hacia atrás" de la primera anotación resume toda la frase
        mitad = anotaciones.size(-1) // 2
        return torch.tanh(self.inicio(anotaciones[:, 0, mitad:]))

    def paso(self, palabra, estado, anotaciones, claves, valido):
        e = self.emb(palabra)
        contexto, pesos = self.atencion(estado, anotaciones, claves, valido)
        estado = self.gru(torch.cat([e, contexto], dim=-1), estado)
        logits = self.salida(torch.cat([estado, contexto, e], dim=-1))
        return logits, estado, pesos

    def forward(self, objetivo, anotaciones, longitudes):
        S = anotaciones.size(1)
        valido = torch.arange(S, device=anotaciones.device)[None, :] < longitudes[:, None]
        claves = self.atencion.precalcular(anotaciones)
        estado = self.estado_inicial(anotaciones)
        todos, mapas = [], []
        for t in range(objetivo.size(1)):
            logits, estado, pesos = self.paso(objetivo[:, t], estado, anotaciones, claves, valido)
            todos.append(logits)
            mapas.append(pesos)
        return torch.stack(todos, dim=1), torch.stack(mapas, dim=1)


if __name__ == "__main__":
    torch.manual_seed(4)
    dec = Decodificador(vocab=50)
    logits, mapas = dec(torch.randint(0, 50, (3, 6)), torch.randn(3, 9, 64), torch.tensor([9, 4, 6]))
    print(logits.shape, mapas[1, 0])
