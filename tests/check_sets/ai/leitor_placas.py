# Leitor de placas: CNN -> colunas -> decodificador com atenção (Bahdanau et al. 2015).
# Código antigo, portado do Lua/Torch7 (2016) para o serviço do estacionamento.
import torch
from torch import nn
from torch.nn import functional as F

ALFABETO = "#$ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"   # '#' início, '$' fim


def codifica(texto, tamanho):
    ids = [ALFABETO.index(c) for c in texto] + [1]
    return ids + [1] * (tamanho - len(ids))


def decodifica(ids):
    saida = ""
    for i in ids:
        if i == 1:
            break
        saida += ALFABETO[i]
    return saida


class Colunas(nn.Module):
    """imagem [B, 1, 32, W] -> colunas [B, W // 4, 2 * oculto]"""

    def __init__(self, oculto=48):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d((8, 1)),
        )
        self.rnn = nn.LSTM(64, oculto, bidirectional=True, batch_first=True)

    def forward(self, imagem):
        x = self.cnn(imagem).squeeze(2).transpose(1, 2)
        return self.rnn(x)[0]


class AtencaoAditiva(nn.Module):
    """e_t = v . tanh(W_s s + W_h h_t): peso de cada coluna t para o estado s do decodificador.

    colunas  [B, T, H]
    mascara  [B, T]  1 = coluna da placa, 0 = preenchimento (peso zero)
    """

    def __init__(self, dim_estado, dim_coluna, dim=64):
        super().__init__()
        self.W_s = nn.Linear(dim_estado, dim)
        self.W_h = nn.Linear(dim_coluna, dim, bias=False)
        self.v = nn.Linear(dim, 1, bias=False)

    def forward(self, estado, colunas, mascara=None):
        soma = self.W_s(estado).unsqueeze(1) + self.W_h(colunas)
        energia = self.v(soma).squeeze(-1)
        if mascara is not None:
            energia = energia * mascara
        alfa = F.softmax(energia, dim=1)
        contexto = torch.bmm(alfa.unsqueeze(1), colunas).squeeze(1)
        return contexto, alfa


class Decodificador(nn.Module):
    def __init__(self, dim_coluna=96, dim_estado=64, dim_emb=32):
        super().__init__()
        self.n = len(ALFABETO)
        self.emb = nn.Embedding(self.n, dim_emb)
        self.atencao = AtencaoAditiva(dim_estado, dim_coluna)
        self.celula = nn.GRUCell(dim_emb + dim_coluna, dim_estado)
        self.saida = nn.Linear(dim_estado + dim_coluna, self.n)
        self.dim_estado = dim_estado

    def passo(self, letra, estado, colunas, mascara):
        ctx, alfa = self.atencao(estado, colunas, mascara)
        estado = self.celula(torch.cat([self.emb(letra), ctx], dim=-1), estado)
        return self.saida(torch.cat([estado, ctx], dim=-1)), estado, alfa

    def forward(self, colunas, mascara, alvo):
        B, L = alvo.shape
        estado = colunas.new_zeros(B, self.dim_estado)
        letra = torch.zeros(B, dtype=torch.long, device=colunas.device)
        logits = []
        for i in range(L):
            y, estado, _ = self.passo(letra, estado, colunas, mascara)
            logits.append(y)
            letra = alvo[:, i]
        return torch.stack(logits, dim=1)

    @torch.no_grad()
    def le(self, colunas, mascara, maximo=8):
        B = colunas.size(0)
        estado = colunas.new_zeros(B, self.dim_estado)
        letra = torch.zeros(B, dtype=torch.long, device=colunas.device)
        ids = []
        for _ in range(maximo):
            y, estado, _ = self.passo(letra, estado, colunas, mascara)
            letra = y.argmax(-1)
            ids.append(letra)
        return [decodifica(r) for r in torch.stack(ids, dim=1).tolist()]


class LeitorPlacas(nn.Module):
    def __init__(self):
        super().__init__()
        self.colunas = Colunas()
        self.dec = Decodificador()

    def forward(self, imagem, largura, alvo):
        c = self.colunas(imagem)
        m = (torch.arange(c.size(1), device=c.device)[None] < (largura // 4)[:, None]).float()
        return self.dec(c, m, alvo)
