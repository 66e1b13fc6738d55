"""Attenzione sparsa esplicita: ogni interrogazione tiene soltanto le k chiavi con il punteggio più alto.

Serie di sensori con lunghezze diverse nello stesso lotto; aggregazione finale con una interrogazione appresa.
"""
import torch
import torch.nn as nn


class AttenzioneSparsa(nn.Module):
    def __init__(self, dim, teste, k=4, caduta=0.0):
        super().__init__()
        self.teste, self.k = teste, k
        self.dim_testa = dim // teste
        self.wq = nn.Parameter(torch.empty(teste, dim, self.dim_testa))
        self.wk = nn.Parameter(torch.empty(teste, dim, self.dim_testa))
        self.wv = nn.Parameter(torch.empty(teste, dim, self.dim_testa))
        self.wo = nn.Parameter(torch.empty(teste, self.dim_testa, dim))
        for w in (self.wq, self.wk, self.wv, self.wo):
            nn.init.normal_(w, std=dim ** -0.5)
        self.caduta = nn.Dropout(caduta)

    def forward(self, x, memoria, valide=None):
        uscita = 0
        for t in range(self.teste):
            q, k, v = x @ self.wq[t], memoria @ self.wk[t], memoria @ self.wv[t]
            punti = q @ k.transpose(1, 2) / self.dim_testa ** 0.5
            if valide is not None:
                punti = punti.masked_fill(~valide[:, None, :], float("-inf"))
            if self.k < punti.shape[-1]:
                soglia = punti.topk(self.k, dim=-1).values[..., -1:]
                punti = punti.masked_fill(punti < soglia, float("-inf"))
            pesi = self.caduta(punti.softmax(-1))
            uscita = uscita + pesi @ v @ self.wo[t]
        return uscita


class Classificatore(nn.Module):
    def __init__(self, canali=6, dim=24, teste=3, classi=5, strati=2, k=4):
        super().__init__()
        self.ingresso = nn.Conv1d(canali, dim, 1)
        self.strati = nn.ModuleList(AttenzioneSparsa(dim, teste, k) for _ in range(strati))
        self.norme = nn.ModuleList(nn.LayerNorm(dim) for _ in range(strati))
        self.domanda = nn.Parameter(torch.randn(1, 1, dim))
        self.raccolta = AttenzioneSparsa(dim, teste, k)
        self.classi = nn.Linear(dim, classi)

    def forward(self, serie, lunghezze):
        """serie: (lotto, canali, tempo); lunghezze: (lotto,) almeno 1"""
        x = self.ingresso(serie).transpose(1, 2)
        valide = torch.arange(x.shape[1], device=x.device) < lunghezze[:, None]
        for norma, strato in zip(self.norme, self.strati):
            y = norma(x)
            x = x + strato(y, y, valide)
        riassunto = self.raccolta(self.domanda.expand(len(x), -1, -1), x, valide)
        return self.classi(riassunto[:, 0])


if __name__ == "__main__":
    torch.manual_seed(0)
    rete = Classificatore().eval()
    print(rete(torch.randn(3, 6, 12), torch.tensor([12, 3, 8])))
