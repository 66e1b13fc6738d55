"""Legendas para as minhas fotos de viagem -- TCC, implementação de "Knowing When to Look"
(Lu et al., 2017), atenção adaptativa com sentinela visual.

V  (B, k, d)   vetores das k regiões da imagem (saída da ResNet, já projetada)
h  (B, d)      estado oculto do LSTM no passo t
s  (B, d)      sentinela visual no passo t

    z_i  = w_h^T tanh(W_v v_i + W_g h)          regiões, i = 1..k
    z_s  = w_h^T tanh(W_s s + W_g h)            sentinela
    alfa = softmax([z_1, ..., z_k, z_s])        k+1 pesos que somam 1
    beta = alfa[k+1]
    c    = soma_i alfa_i v_i + beta s

Devolve (c (B, d), alfa (B, k+1), beta (B, 1)).  Todas as regiões existem, não há máscara.
"""
import torch
import torch.nn as nn


class AtencaoAdaptativa(nn.Module):
    def __init__(self, d, k_att):
        super().__init__()
        self.W_v = nn.Linear(d, k_att, bias=False)
        self.W_g = nn.Linear(d, k_att, bias=False)
        self.W_s = nn.Linear(d, k_att, bias=False)
        self.w_h = nn.Linear(k_att, 1, bias=False)

    def forward(self, V, h, s):
        g = self.W_g(h)
        z = self.w_h(torch.tanh(self.W_v(V) + g.unsqueeze(1))).squeeze(2)
        z_s = self.w_h(torch.tanh(self.W_s(s) + g))
        alfa = torch.cat((z, z_s), dim=1).softmax(dim=1)
        beta = alfa[:, -1:]
        tudo = torch.cat((V, s.unsqueeze(1)), dim=1)
        c = torch.bmm(alfa.unsqueeze(1), tudo).squeeze(1)
        return c, alfa, beta


class PassoLegenda(nn.Module):
    """Um passo do decodificador: palavra anterior -> logits da próxima."""

    def __init__(self, vocab, d, k_att):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.lstm = nn.LSTMCell(2 * d, d)
        self.porta_x = nn.Linear(2 * d, d)
        self.porta_h = nn.Linear(d, d)
        self.atencao = AtencaoAdaptativa(d, k_att)
        self.mlp = nn.Linear(d, vocab)

    def forward(self, palavra, V, h, m):
        x = torch.cat([self.emb(palavra), V.mean(1)], 1)
        porta = torch.sigmoid(self.porta_x(x) + self.porta_h(h))
        h, m = self.lstm(x, (h, m))
        s = porta * torch.tanh(m)
        c, alfa, beta = self.atencao(V, h, s)
        return self.mlp(c + h), h, m, alfa
