# Gewasherkenning per perceel uit Sentinel-2-tijdreeksen.
#
# Bewolkte opnamen vallen weg, dus elk perceel heeft een eigen aantal datums; de
# rest van de reeks is opvulling.  Dagnummer gaat als sinus/cosinus naar binnen.
import math

import torch
import torch.nn as nn

GEWASSEN = ["tarwe", "biet", "aardappel", "mais", "gras", "ui", "overig"]
BANDEN = 10

STANDAARD = {"breedte": 48, "koppen": 4, "lagen": 2, "uitval": 0.1, "klassen": len(GEWASSEN)}


def dagcode(dag, breedte):
    """dag [b, n] (1..366) -> [b, n, breedte]"""
    k = torch.arange(breedte // 2, device=dag.device)
    hoek = dag[..., None].float() / 365.0 * 2 * math.pi * (k + 1)
    return torch.cat([hoek.sin(), hoek.cos()], -1)


def ndvi(x):
    rood, nir = x[..., 2], x[..., 6]
    return (nir - rood) / (nir + rood + 1e-6)


class TijdAandacht(nn.Module):
    """Aandacht over de datums van één perceel.

    geldig: [b, n] bool, True = echte opname.  Naar opvulling wordt niet gekeken;
    wat er op de plaats van de opvulling zelf uitkomt doet er niet toe.
    """

    def __init__(self, cfg):
        super().__init__()
        c, h = cfg["breedte"], cfg["koppen"]
        assert c % h == 0
        self.h = h
        self.schaal = h ** -0.5
        self.qkv = nn.Linear(c, 3 * c, bias=False)
        self.uit = nn.Linear(c, c)
        self.uitval = nn.Dropout(cfg["uitval"])

    def forward(self, x, geldig=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * self.schaal
        if geldig is not None:
            scores = scores.masked_fill(~geldig[:, None, :, None], -1e9)
        gewicht = self.uitval(scores.softmax(dim=-1))
        return self.uit((gewicht @ v).transpose(1, 2).reshape(b, n, c))


class Laag(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg["breedte"]
        self.aandacht = TijdAandacht(cfg)
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Dropout(cfg["uitval"]), nn.Linear(2 * c, c))
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)

    def forward(self, x, geldig):
        x = x + self.aandacht(self.n1(x), geldig)
        return x + self.mlp(self.n2(x))


class Perceel(nn.Module):
    def __init__(self, **cfg):
        super().__init__()
        cfg = STANDAARD | cfg
        self.invoer = nn.Linear(BANDEN + 1, cfg["breedte"])
        self.lagen = nn.ModuleList([Laag(cfg) for _ in range(cfg["lagen"])])
        self.klasse = nn.Linear(cfg["breedte"], cfg["klassen"])
        self.breedte = cfg["breedte"]

    def forward(self, banden, dag, geldig):
        x = self.invoer(torch.cat([banden, ndvi(banden)[..., None]], -1)) + dagcode(dag, self.breedte)
        for laag in self.lagen:
            x = laag(x, geldig)
        x = x.masked_fill(~geldig[..., None], float("-inf")).amax(1)
        return self.klasse(x)


if __name__ == "__main__":
    net = Perceel().eval()
    n = torch.tensor([12, 7, 9])
    geldig = torch.arange(12)[None] < n[:, None]
    dag = torch.randint(1, 366, (3, 12)).sort(-1)[0]
    print(net(torch.rand(3, 12, BANDEN), dag, geldig).softmax(-1))
