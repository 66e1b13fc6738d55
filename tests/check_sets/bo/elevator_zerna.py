# Зерновий елеватор: прогноз вологості та температури в силосі.
# Датчики пишуть раз на годину; увага з ALiBi, бо ряди різної довжини.
import torch
import torch.nn as nn
import torch.nn.functional as F


def nahyly(n_holiv):
    """Нахили ALiBi (Press, Smith, Lewis 2022), n_holiv — степінь двійки.

    Для 8 голів це 1/2, 1/4, ..., 1/256.
    """
    assert n_holiv & (n_holiv - 1) == 0
    krok = 2.0 ** (-8.0 / n_holiv)
    return krok ** torch.arange(n_holiv).float()


def vidstan(lq, lk, device=None):
    """Матриця -(i - j), де i рахується від кінця ключів."""
    i = torch.arange(lk - lq, lk, device=device)
    j = torch.arange(lk, device=device)
    return (j[None, :] - i[:, None]).float()


class SylosUvaha(nn.Module):
    """Причинна увага над годинами.

    x: (партія, години, ознаки) -> такий самий розмір.
    """

    def __init__(self, oznak=32, holiv=8):
        super().__init__()
        self.holiv = holiv
        self.w = nn.ModuleDict({n: nn.Linear(oznak, oznak, bias=False) for n in "qkvo"})
        self.register_buffer("m", nahyly(holiv)[:, None, None], persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.holiv
        q, k, v = (self.w[n](x).reshape(b, t, self.holiv, d).transpose(1, 2) for n in "qkv")
        dist = vidstan(t, t, x.device)
        zsuv = self.m * dist
        zsuv = zsuv.masked_fill(dist > 0, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=zsuv.to(q.dtype).expand(b, -1, -1, -1))
        return self.w["o"](y.transpose(1, 2).reshape(b, t, c))


class SylosModel(nn.Module):
    KULTURY = ("пшениця", "кукурудза", "соняшник", "ріпак")

    def __init__(self, datchykiv=12, oznak=32, shariv=2):
        super().__init__()
        self.vhid = nn.Linear(datchykiv, oznak)
        self.kultura = nn.Embedding(len(self.KULTURY), oznak)
        self.uvaha = nn.ModuleList(SylosUvaha(oznak) for _ in range(shariv))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(oznak), nn.Linear(oznak, 4 * oznak), nn.SiLU(),
                          nn.Linear(4 * oznak, oznak)) for _ in range(shariv))
        self.vyhid = nn.Linear(oznak, datchykiv)

    def forward(self, riad, kultura):
        h = self.vhid(riad) + self.kultura(kultura)[:, None]
        for u, f in zip(self.uvaha, self.ffn):
            h = h + u(F.layer_norm(h, h.shape[-1:]))
            h = h + f(h)
        return self.vyhid(h)


def samozihrivannia(temp, porih=4.0):
    """Чи росте температура швидше за поріг (°C за добу)?"""
    return (temp[..., 24:] - temp[..., :-24] > porih).any(-1)
