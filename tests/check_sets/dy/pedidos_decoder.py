"""Resumo de pedidos: um passo do decodificador GRU com atencao aditiva.

PassoAtencao(vocab, dim, max_itens).forward(palavra, estado, codif) -> (logits, pesos, estado)
    palavra  (B,) int           palavra anterior
    estado   (B, dim)           estado da GRU
    codif    (B, max_itens, dim) saidas do codificador, uma por item (sem preenchimento)
    logits   (B, vocab)
    pesos    (B, max_itens)     pesos da atencao sobre os itens, cada linha soma 1 (vao ao painel)
A energia de um item mede o quanto a saida do codificador para ESSE item combina com o estado
e a palavra anterior: trocar a ordem dos itens troca a ordem dos pesos e nao muda o contexto.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PassoAtencao(nn.Module):
    def __init__(self, vocab, dim, max_itens):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.energia = nn.Linear(2 * dim, max_itens)
        self.junta = nn.Linear(2 * dim, dim)
        self.gru = nn.GRUCell(dim, dim)
        self.saida = nn.Linear(dim, vocab)

    def forward(self, palavra, estado, codif):
        e = self.emb(palavra)
        pesos = self.energia(torch.cat([e, estado], dim=1))
        a = F.softmax(pesos, dim=1)
        contexto = torch.bmm(a.unsqueeze(1), codif).squeeze(1)
        x = torch.relu(self.junta(torch.cat([e, contexto], dim=1)))
        estado = self.gru(x, estado)
        return self.saida(estado), pesos, estado
