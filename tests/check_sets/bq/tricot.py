"""Gerador de receitas de tricô (português): imagem da peça -> carreiras.

Decodificador GRU com atenção, na linha do tutorial seq2seq do PyTorch.
Cada passo olha para as linhas da imagem codificada e decide quais importam
para o próximo ponto.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PONTOS = ["<ini>", "<fim>", "m", "t", "laç", "2jm", "mt", "cruz", "arr", "vira"]
INI, FIM = 0, 1
MAX_LINHAS = 24


class CodificadorPeca(nn.Module):
    """cada linha da imagem vira um vetor"""

    def __init__(self, colunas, oculto):
        super().__init__()
        self.conv = nn.Conv1d(colunas, oculto, 3, padding=1)
        self.gru = nn.GRU(oculto, oculto, batch_first=True)

    def forward(self, imagem):                       # [B, linhas, colunas]
        x = torch.relu(self.conv(imagem.transpose(1, 2))).transpose(1, 2)
        return self.gru(x)


class DecodificadorAtento(nn.Module):
    """
    Um passo:  ponto [B], estado [1, B, O], linhas [B, L, O]  (L <= max_linhas)
    devolve    log-probabilidades [B, P], estado, pesos [B, L]

    Os pesos comparam o estado com as linhas da peça e somam 1 em L.
    """

    def __init__(self, oculto, pontos=len(PONTOS), max_linhas=MAX_LINHAS, p=0.1):
        super().__init__()
        self.embutir = nn.Embedding(pontos, oculto)
        self.atencao = nn.Linear(2 * oculto, max_linhas)
        self.juntar = nn.Linear(2 * oculto, oculto)
        self.drop = nn.Dropout(p)
        self.gru = nn.GRU(oculto, oculto, batch_first=True)
        self.saida = nn.Linear(oculto, pontos)

    def forward(self, ponto, estado, linhas):
        L = linhas.size(1)
        e = self.drop(self.embutir(ponto))
        energia = self.atencao(torch.cat((e, estado[0]), dim=1))[:, :L]
        pesos = F.softmax(energia, dim=1)
        contexto = torch.bmm(pesos.unsqueeze(1), linhas).squeeze(1)
        x = torch.relu(self.juntar(torch.cat((e, contexto), dim=1)))
        y, estado = self.gru(x.unsqueeze(1), estado)
        return F.log_softmax(self.saida(y.squeeze(1)), dim=1), estado, pesos


class Tricotador(nn.Module):
    def __init__(self, colunas=30, oculto=32):
        super().__init__()
        self.cod = CodificadorPeca(colunas, oculto)
        self.dec = DecodificadorAtento(oculto)

    def forward(self, imagem, alvo):
        linhas, estado = self.cod(imagem)
        ponto = torch.full((imagem.size(0),), INI, dtype=torch.long)
        perda = 0.0
        for t in range(alvo.size(1)):
            logp, estado, _ = self.dec(ponto, estado, linhas)
            perda = perda + F.nll_loss(logp, alvo[:, t])
            ponto = alvo[:, t]
        return perda / alvo.size(1)

    @torch.no_grad()
    def receita(self, imagem, limite=40):
        linhas, estado = self.cod(imagem[None])
        ponto, texto = torch.tensor([INI]), []
        for _ in range(limite):
            logp, estado, _ = self.dec(ponto, estado, linhas)
            ponto = logp.argmax(1)
            if ponto.item() == FIM:
                break
            texto.append(PONTOS[ponto.item()])
        return compactar(texto)


def compactar(pontos):
    """['m','m','t'] -> '2m t'"""
    saida, i = [], 0
    while i < len(pontos):
        j = i
        while j < len(pontos) and pontos[j] == pontos[i]:
            j += 1
        saida.append((str(j - i) if j - i > 1 else "") + pontos[i])
        i = j
    return " ".join(saida)


if __name__ == "__main__":
    m = Tricotador().eval()
    print(m.receita(torch.rand(20, 30), limite=12))
