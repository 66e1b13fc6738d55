import torch
from torch import nn


class RotaKurye(nn.Module):
    """Kurye icin isaretci ag: duraklari sirayla secer (acgozlu).

    duraklar (B, N, 2) -> rota (B, N) ve log-olasilik (B, N, N).
    Ziyaret edilen durak bir daha secilmez. Puanlar kirp * tanh(u) ile sinirlanir.
    """

    def __init__(self, d=24, kirp=10.0):
        super().__init__()
        self.kirp = kirp
        self.gomme = nn.Linear(2, d)
        self.kodlayici = nn.GRU(d, d, batch_first=True)
        self.cozucu = nn.GRUCell(d, d)
        self.basla = nn.Parameter(torch.zeros(d))
        self.Wr = nn.Linear(d, d, bias=False)
        self.Wq = nn.Linear(d, d)
        self.v = nn.Parameter(torch.randn(d))

    def forward(self, duraklar):
        B, N, _ = duraklar.shape
        g = self.gomme(duraklar)
        anahtar, son = self.kodlayici(g)
        ref = self.Wr(anahtar)
        h, girdi = son[0], self.basla.expand(B, -1)
        bitti = torch.zeros(B, N, dtype=torch.bool, device=duraklar.device)
        rota, logp = [], []
        for _ in range(N):
            h = self.cozucu(girdi, h)
            u = torch.tanh(ref + self.Wq(h).unsqueeze(1)) @ self.v
            u = self.kirp * torch.tanh(u)
            u = u.masked_fill(bitti, float("-inf"))
            lp = torch.log_softmax(u, dim=1)
            sec = lp.argmax(dim=1)
            rota.append(sec)
            logp.append(lp)
            bitti = bitti.scatter(1, sec[:, None], True)
            girdi = g[torch.arange(B, device=g.device), sec]
        return torch.stack(rota, 1), torch.stack(logp, 1)
