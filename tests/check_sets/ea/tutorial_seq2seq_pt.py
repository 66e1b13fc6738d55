"""Tradução fr->en com RNN (trabalho da disciplina de Redes Neurais), lote de tamanho 1.

Decodificador com a atenção de Bahdanau et al. (2015): a cada passo o estado do decodificador é
comparado com CADA saída do codificador, o peso de uma palavra da origem depende do
conteúdo dela. Se duas palavras da origem trocam de lugar, seus pesos trocam junto.

palavra : LongTensor (1, 1)
estado  : (1, 1, hidden)
saidas  : (max_length, hidden)   saídas do codificador
n       : int, comprimento verdadeiro da frase; saidas[n:] são zeros e não recebem peso

retorna log-probabilidades (1, vocab), estado (1, 1, hidden), pesos (1, max_length)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1, max_length=10):
        super(AttnDecoderRNN, self).__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attn = nn.Linear(hidden_size * 2, max_length)
        self.attn_combine = nn.Linear(hidden_size * 2, hidden_size)
        self.dropout = nn.Dropout(dropout_p)
        self.gru = nn.GRU(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, palavra, estado, saidas, n):
        embedded = self.dropout(self.embedding(palavra).view(1, 1, -1))
        energia = self.attn(torch.cat((embedded[0], estado[0]), 1))
        fora = torch.arange(energia.size(1), device=energia.device) >= n
        energia = energia.masked_fill(fora, float('-inf'))
        pesos = F.softmax(energia, dim=1)
        contexto = torch.bmm(pesos.unsqueeze(0), saidas.unsqueeze(0))

        x = torch.cat((embedded[0], contexto[0]), 1)
        x = F.relu(self.attn_combine(x).unsqueeze(0))
        x, estado = self.gru(x, estado)
        return F.log_softmax(self.out(x[0]), dim=1), estado, pesos
