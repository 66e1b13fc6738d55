"""Decodificador de legendas de imagens com atenção de Bahdanau."""
import torch
import torch.nn as nn


class AtencaoAditiva(nn.Module):
    """
    Pontuação de cada região r:  v . tanh(W h + U r)

    h       : (B, d_h)     estado do decodificador
    regioes : (B, R, d_r)  mapa de características achatado
    Devolve contexto (B, d_r) e pesos (B, R), que somam um.
    """

    def __init__(self, d_h=20, d_r=16, d_a=12):
        super().__init__()
        self.W = nn.Linear(d_h, d_a)
        self.U = nn.Linear(d_r, d_a)
        self.v = nn.Linear(d_a, 1)

    def forward(self, h, regioes):
        soma = self.W(h).unsqueeze(1) + self.U(regioes)
        nota = self.v(soma).squeeze(-1)
        peso = nota.softmax(dim=1)
        return (peso.unsqueeze(-1) * regioes).sum(dim=1), peso


class Legendador(nn.Module):
    """
    palavras : (B, T) inteiros, palavras anteriores
    regioes  : (B, R, d_r)
    Devolve logits (B, T, vocab) e pesos (B, T, R). Um filtro sigmoide
    (f_beta) multiplica o contexto, como em Show, Attend and Tell.
    """

    def __init__(self, vocab=30, d_e=10, d_h=20, d_r=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_e)
        self.inicio = nn.Linear(d_r, d_h)
        self.atencao = AtencaoAditiva(d_h, d_r)
        self.f_beta = nn.Linear(d_h, d_r)
        self.gru = nn.GRUCell(d_e + d_r, d_h)
        self.saida = nn.Linear(d_h, vocab)

    def forward(self, palavras, regioes):
        h = torch.tanh(self.inicio(regioes.mean(dim=1)))
        logits, pesos = [], []
        for t in range(palavras.size(1)):
            ctx, p = self.atencao(h, regioes)
            ctx = torch.sigmoid(self.f_beta(h)) * ctx
            h = self.gru(torch.cat([self.emb(palavras[:, t]), ctx], dim=-1), h)
            logits.append(self.saida(h))
            pesos.append(p)
        return torch.stack(logits, dim=1), torch.stack(pesos, dim=1)
