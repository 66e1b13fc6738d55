"""Legendas de imagens (estilo Show, Attend and Tell), decodificador em PyTorch.

Pontuacao aditiva (Bahdanau):  e_i = v^T tanh(W_f a_i + W_h h),  alfa = softmax_i(e),
contexto = soma_i alfa_i a_i, multiplicado pela porta beta = sigmoid(W_b h).
"""
import torch
import torch.nn as nn


class Olhar(nn.Module):
    def __init__(self, d_img, d_h, d_att):
        super().__init__()
        self.w_f = nn.Linear(d_img, d_att)
        self.w_h = nn.Linear(d_h, d_att)
        self.v = nn.Linear(d_att, 1)

    def forward(self, a, h):
        """a (B, R, d_img), h (B, d_h) -> contexto (B, d_img), alfa (B, R)"""
        e = self.v(self.w_f(a) + self.w_h(h).unsqueeze(1)).squeeze(2)
        alfa = torch.softmax(e, dim=1)
        return (a * alfa.unsqueeze(2)).sum(dim=1), alfa


class Legendador(nn.Module):
    def __init__(self, vocab, d_img=32, d_emb=16, d_h=24, d_att=20):
        super().__init__()
        self.olhar = Olhar(d_img, d_h, d_att)
        self.emb = nn.Embedding(vocab, d_emb)
        self.h0 = nn.Linear(d_img, d_h)
        self.c0 = nn.Linear(d_img, d_h)
        self.beta = nn.Linear(d_h, d_img)
        self.lstm = nn.LSTMCell(d_emb + d_img, d_h)
        self.saida = nn.Linear(d_h, vocab)

    def forward(self, a, palavras):
        """
        a        (B, R, d_img)  R regioes da imagem, todas validas
        palavras (B, T) long    comeca com <inicio>
        retorna logits (B, T, vocab) e alfas (B, T, R)
        """
        m = a.mean(1)
        h, c = torch.tanh(self.h0(m)), torch.tanh(self.c0(m))
        saidas, alfas = [], []
        for t in range(palavras.size(1)):
            ctx, alfa = self.olhar(a, h)
            ctx = torch.sigmoid(self.beta(h)) * ctx
            h, c = self.lstm(torch.cat([self.emb(palavras[:, t]), ctx], 1), (h, c))
            saidas.append(self.saida(h))
            alfas.append(alfa)
        return torch.stack(saidas, 1), torch.stack(alfas, 1)
