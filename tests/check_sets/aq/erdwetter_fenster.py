"""Window attention on the latitude/longitude grid (global forecast, 0.25 degree).

The longitude is periodic, hence the rolled windows across the date line need
no mask. There is no roll over the poles.
"""
import torch
import torch.nn as nn


def fenster_teilen(x, fb, fl):
    b, h, w, c = x.shape
    x = x.view(b, h // fb, fb, w // fl, fl, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, fb * fl, c)


def fenster_fuegen(win, fb, fl, b, h, w):
    c = win.shape[-1]
    x = win.view(b, h // fb, w // fl, fb, fl, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)


class ErdFensterAttention(nn.Module):
    """x: [B, lat, lon, C]. One learnt bias per head for each relative offset inside a window."""

    def __init__(self, kanaele, koepfe, fenster=(2, 4), rollen=False):
        super().__init__()
        assert kanaele % koepfe == 0
        self.fb, self.fl = fenster
        self.koepfe = koepfe
        self.rollen = self.fl // 2 if rollen else 0
        self.faktor = (kanaele // koepfe) ** -0.5
        self.qkv = nn.Linear(kanaele, kanaele * 3)
        self.aus = nn.Linear(kanaele, kanaele)
        self.bias_tab = nn.Parameter(torch.zeros((2 * self.fb - 1) * (2 * self.fl - 1), koepfe))
        nn.init.trunc_normal_(self.bias_tab, std=0.02)
        yy, xx = torch.meshgrid(torch.arange(self.fb), torch.arange(self.fl), indexing="ij")
        koord = torch.stack([yy.flatten(), xx.flatten()])
        rel = koord[:, :, None] - koord[:, None, :]
        idx = (rel[0] + self.fb - 1) * (2 * self.fl - 1) + rel[1] + self.fl - 1
        self.register_buffer("bias_idx", idx, persistent=False)

    def forward(self, x):
        b, h, w, c = x.shape
        if self.rollen:
            x = torch.roll(x, -self.rollen, dims=2)
        f = fenster_teilen(x, self.fb, self.fl)
        n_f, n, _ = f.shape
        q, k, v = self.qkv(f).reshape(n_f, n, 3, self.koepfe, c // self.koepfe).permute(2, 0, 3, 1, 4)
        s = (q * self.faktor) @ k.transpose(-2, -1)
        bias = self.bias_tab[self.bias_idx.view(-1)].view(n, n, self.koepfe).permute(2, 0, 1)
        s = s + bias[None]
        f = (s.softmax(-1) @ v).transpose(1, 2).reshape(n_f, n, c)
        x = fenster_fuegen(self.aus(f), self.fb, self.fl, b, h, w)
        if self.rollen:
            x = torch.roll(x, self.rollen, dims=2)
        return x


def breiten_gewichte(lat_grad):
    """cos(latitude), mean one; for the loss."""
    g = torch.cos(torch.deg2rad(lat_grad)).clamp_min(0)
    return g / g.mean()


def wrmse(pred, wahr, lat_grad):
    g = breiten_gewichte(lat_grad)[None, :, None, None]
    return ((pred - wahr) ** 2 * g).mean(dim=(1, 2)).sqrt()
