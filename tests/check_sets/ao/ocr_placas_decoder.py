"""
Leitura de placas de carro: CNN + BiLSTM + decodificador com atencao aditiva.

Cada imagem tem largura real diferente; `larguras` (lista de inteiros) diz quantas
colunas do mapa de atributos valem, o resto e' preenchimento.
"""
import torch
import torch.nn as nn

LETRAS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
INICIO, FIM = 36, 37


class Colunas(nn.Module):
    """imagem [N,1,32,W] -> colunas [N, W/4, 2*dim]"""

    def __init__(self, dim):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, dim, (8, 1)), nn.ReLU())
        self.rnn = nn.LSTM(dim, dim, bidirectional=True, batch_first=True)

    def forward(self, img):
        f = self.cnn(img).squeeze(2).transpose(1, 2)
        return self.rnn(f)[0]


class PassoDeAtencao(nn.Module):
    """estado s [N, E] olha para as colunas h [N, T, D]; devolve (contexto, alfa)"""

    def __init__(self, dim_estado, dim_coluna, dim_att):
        super().__init__()
        self.do_estado = nn.Linear(dim_estado, dim_att)
        self.da_coluna = nn.Linear(dim_coluna, dim_att, bias=False)
        self.nota = nn.Linear(dim_att, 1, bias=False)

    def forward(self, s, h, larguras):
        a = self.do_estado(s)[:, None, :] + self.da_coluna(h)
        nota = self.nota(a.tanh())[:, :, 0]
        for n, w in enumerate(larguras):
            nota[n, w:] = float("-inf")
        alfa = nota.softmax(1)
        return torch.einsum("nt,ntd->nd", alfa, h), alfa


class LeitorDePlacas(nn.Module):
    def __init__(self, dim=64, classes=38, dim_emb=16):
        super().__init__()
        self.colunas = Colunas(dim)
        self.emb = nn.Embedding(classes, dim_emb)
        self.att = PassoDeAtencao(dim, 2 * dim, dim)
        self.cel = nn.GRUCell(dim_emb + 2 * dim, dim)
        self.saida = nn.Linear(dim + 2 * dim, classes)
        self.dim = dim

    def passo(self, y, s, h, larguras):
        c, alfa = self.att(s, h, larguras)
        s = self.cel(torch.cat([self.emb(y), c], 1), s)
        return self.saida(torch.cat([s, c], 1)), s, alfa

    def forward(self, img, larguras, alvo):
        h = self.colunas(img)
        s = h.new_zeros(h.size(0), self.dim)
        y = torch.full((h.size(0),), INICIO, device=h.device)
        logits = []
        for t in range(alvo.size(1)):
            l, s, _ = self.passo(y, s, h, larguras)
            logits.append(l)
            y = alvo[:, t]
        return torch.stack(logits, 1)

    @torch.no_grad()
    def ler(self, img, larguras, maximo=8):
        h = self.colunas(img)
        s = h.new_zeros(h.size(0), self.dim)
        y = torch.full((h.size(0),), INICIO, device=h.device)
        textos = [""] * h.size(0)
        vivo = [True] * h.size(0)
        for _ in range(maximo):
            l, s, _ = self.passo(y, s, h, larguras)
            y = l.argmax(1)
            for i, c in enumerate(y.tolist()):
                if c >= 36:
                    vivo[i] = False
                elif vivo[i]:
                    textos[i] += LETRAS[c]
        return textos
