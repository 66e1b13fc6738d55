from torch import nn


class Mischer(nn.Module):
    # PoolFormer token mixer: local mean minus the pixel itself, then a channel MLP
    def __init__(self, kanal=12, fenster=3, mal=2):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(1, kanal), nn.GroupNorm(1, kanal)
        self.mittel = nn.AvgPool2d(fenster, 1, fenster // 2, count_include_pad=False)
        self.kopf = nn.Sequential(nn.Conv2d(kanal, mal * kanal, 1), nn.GELU(),
                                  nn.Conv2d(mal * kanal, kanal, 1))
        self.s1 = nn.Parameter(0.1 * self.n1.weight.detach().clone()[:, None, None])
        self.s2 = nn.Parameter(0.1 * self.n2.weight.detach().clone()[:, None, None])

    def forward(self, bild):
        a = self.n1(bild)
        bild = bild + self.s1 * (self.mittel(a) - a)
        return bild + self.s2 * self.kopf(self.n2(bild))
