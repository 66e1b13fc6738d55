"""Tradutor com atenção de Luong (variante "general"), lista 5 do curso de PLN.

A cada passo t, com h_t = saída da LSTM do decodificador e hs = saídas do codificador:

    e_s  = h_t^T W_a hs          para as palavras s da frase de origem
    a    = softmax(e)            só sobre palavras reais; <pad> recebe peso zero
    c_t  = soma_s a_s hs
    h~_t = tanh(W_c [c_t ; h_t])
    saída = W_s h~_t  (logits)

entrada  (B, T) ids do alvo (teacher forcing)
fonte    (B, S, H) estados do codificador
mascara  (B, S) float, 1.0 = palavra, 0.0 = <pad>; ao menos uma palavra por frase
estado   (h0, c0), cada um (1, B, H)
Retorna logits (B, T, V) e pesos (B, T, S).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Trad(nn.Module):
    def __init__(self, V, H=32, emb=24):
        super().__init__()
        self.emb = nn.Embedding(V, emb)
        self.lstm = nn.LSTM(emb, H, batch_first=True)
        self.Wa = nn.Linear(H, H, bias=False)
        self.Wc = nn.Linear(2 * H, H, bias=False)
        self.Ws = nn.Linear(H, V)

    def atencao(self, h, fonte, mascara):
        e = torch.bmm(h, self.Wa(fonte).transpose(1, 2))      # (B, T, S)
        e = e * mascara.unsqueeze(1)
        a = F.softmax(e, dim=-1)
        return torch.bmm(a, fonte), a

    def forward(self, entrada, fonte, mascara, estado):
        h, _ = self.lstm(self.emb(entrada), estado)
        c, a = self.atencao(h, fonte, mascara)
        h_til = self.Wc(torch.cat([c, h], dim=-1))
        return self.Ws(h_til), a
