# -*- coding: utf-8 -*-
"""Generador de titulares con mecanismo de copia (See, Liu y Manning, 2017).

Convenio de formas: todo va con el tiempo primero.
    fuente        (S, B)        ids extendidos de las palabras del artículo
    memoria       (S, B, 2H)    salidas del codificador bidireccional
    relleno       (S, B)        True donde hay relleno
    cobertura     (S, B)        suma de las atenciones anteriores
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AtencionAditiva(nn.Module):
    def __init__(self, dim_mem, dim_est, dim_att):
        super().__init__()
        self.W_m = nn.Linear(dim_mem, dim_att, bias=False)
        self.W_s = nn.Linear(2 * dim_est, dim_att)
        self.w_c = nn.Parameter(torch.randn(dim_att) * 0.1)
        self.v = nn.Linear(dim_att, 1, bias=False)

    def forward(self, estado, memoria, relleno, cobertura):
        # como en el artículo original, el estado es la pareja (h, c) concatenada
        s = torch.cat(estado, dim=-1)
        e = self.W_m(memoria) + self.W_s(s) + cobertura.unsqueeze(-1) * self.w_c
        e = self.v(torch.tanh(e)).squeeze(-1)
        e = e.masked_fill(relleno, float("-inf"))
        a = F.softmax(e, dim=0)
        contexto = torch.einsum("sb,sbd->bd", a, memoria)
        return contexto, a


class Decodificador(nn.Module):
    def __init__(self, vocab, dim_emb, dim_mem, dim_est, dim_att):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, dim_emb)
        self.entrada = nn.Linear(dim_emb + dim_mem, dim_emb)
        self.lstm = nn.LSTMCell(dim_emb, dim_est)
        self.atencion = AtencionAditiva(dim_mem, dim_est, dim_att)
        self.salida = nn.Sequential(nn.Linear(dim_est + dim_mem, dim_est),
                                    nn.Linear(dim_est, vocab))
        self.puerta = nn.Linear(dim_mem + 2 * dim_est + dim_emb, 1)

    def paso(self, palabra, estado, contexto, cobertura, memoria, relleno, fuente, n_oov):
        # las palabras fuera de vocabulario entran como <unk> (id 1)
        palabra = palabra.masked_fill(palabra >= self.vocab, 1)
        x = self.entrada(torch.cat([self.emb(palabra), contexto], dim=-1))
        estado = self.lstm(x, estado)
        contexto, a = self.atencion(estado, memoria, relleno, cobertura)
        perdida_cob = torch.minimum(a, cobertura).sum(0)
        cobertura = cobertura + a

        p_gen = torch.sigmoid(self.puerta(torch.cat([contexto, *estado, x], dim=-1)))
        p_voc = F.softmax(self.salida(torch.cat([estado[0], contexto], dim=-1)), dim=-1)
        p = torch.cat([p_gen * p_voc, p_voc.new_zeros(p_voc.size(0), n_oov)], dim=-1)
        p = p.scatter_add(1, fuente.t(), ((1 - p_gen) * a.t()))
        return p, estado, contexto, cobertura, perdida_cob

    def forward(self, objetivo, estado, memoria, relleno, fuente, n_oov=0):
        """objetivo (T, B): devuelve las distribuciones (T, B, vocab + n_oov) y la
        pérdida de cobertura (T, B)."""
        contexto = memoria.new_zeros(memoria.size(1), memoria.size(2))
        cobertura = memoria.new_zeros(memoria.shape[:2])
        ps, cs = [], []
        for palabra in objetivo:
            p, estado, contexto, cobertura, c = self.paso(
                palabra, estado, contexto, cobertura, memoria, relleno, fuente, n_oov)
            ps.append(p)
            cs.append(c)
        return torch.stack(ps), torch.stack(cs)


class Codificador(nn.Module):
    def __init__(self, vocab, dim_emb, dim):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, dim_emb)
        self.rnn = nn.LSTM(dim_emb, dim, bidirectional=True)
        self.red_h = nn.Linear(2 * dim, dim)
        self.red_c = nn.Linear(2 * dim, dim)

    def forward(self, fuente, largos):
        e = self.emb(fuente.masked_fill(fuente >= self.vocab, 1))
        e = nn.utils.rnn.pack_padded_sequence(e, largos, enforce_sorted=False)
        y, (h, c) = self.rnn(e)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, total_length=fuente.size(0))
        h = torch.relu(self.red_h(torch.cat([h[0], h[1]], -1)))
        c = torch.relu(self.red_c(torch.cat([c[0], c[1]], -1)))
        return y, (h, c)


if __name__ == "__main__":
    V, S, B, T = 20, 7, 3, 4
    fuente = torch.randint(0, V + 2, (S, B))
    largos = torch.tensor([7, 5, 3])
    relleno = torch.arange(S)[:, None] >= largos
    cod, dec = Codificador(V, 8, 6), Decodificador(V, 8, 12, 6, 10)
    mem, est = cod(fuente, largos)
    p, c = dec(torch.randint(0, V, (T, B)), est, mem, relleno, fuente, n_oov=2)
    print(p.shape, p.sum(-1))
