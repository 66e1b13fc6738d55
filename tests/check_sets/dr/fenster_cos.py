"""Fensteraufmerksamkeit mit Kosinus-Ähnlichkeit (nach Swin V2).

Ein Bild (B, H, W, C) wird zyklisch um `versatz` nach links oben geschoben, in
Fenster von `f` x `f` Pixel zerlegt, und jedes Pixel achtet auf die Pixel seines
Fensters. Danach wird alles an seinen Platz zurückgebracht.

Logits je Kopf:   cos(q, k) * tau  +  bias,
wobei tau = exp(min(log_tau, ln 100)) je Kopf gelernt wird und
bias = 16 * sigmoid(MLP(Abstand in log-Koordinaten)).

Bei versatz > 0 liegen in den Randfenstern Pixel nebeneinander, die im Bild nicht
benachbart sind; solche Paare werden vor dem Softmax ausgeschlossen.

H und W müssen Vielfache von f sein. Ausgabe: (B, H, W, C), mit Rest-Zweig und
Norm *nach* der Aufmerksamkeit (res-post-norm): x + LN(Attn(x)).
"""
import math
import torch
from torch import nn
import torch.nn.functional as F


class FensterBlock(nn.Module):
    def __init__(self, c, koepfe, f=4, versatz=0):
        super().__init__()
        self.koepfe, self.f, self.versatz = koepfe, f, versatz
        self.qkv = nn.Linear(c, 3 * c)
        self.raus = nn.Linear(c, c)
        self.norm = nn.LayerNorm(c)
        self.log_tau = nn.Parameter(torch.full((koepfe, 1, 1), math.log(10.0)))
        self.mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, koepfe, bias=False))
        r = torch.stack(torch.meshgrid(torch.arange(f), torch.arange(f), indexing="ij"), -1).reshape(-1, 2)
        ab = (r[:, None] - r[None, :]).to(torch.get_default_dtype())      # (f*f, f*f, 2)
        self.register_buffer("ab", ab.sign() * torch.log1p(ab.abs()), persistent=False)

    def zerlege(self, x):
        b, h, w, c = x.shape
        f = self.f
        x = x.view(b, h // f, f, w // f, f, c).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(b, -1, f * f, c)                 # (B, nF, f*f, C)

    def fuege(self, y, h, w):
        b, _, _, c = y.shape
        f = self.f
        y = y.view(b, h // f, w // f, f, f, c).permute(0, 1, 3, 2, 4, 5)
        return y.reshape(b, h, w, c)

    def gebiet(self, h, w, device):
        # Nummer des zusammenhängenden Gebiets für jedes (verschobene) Pixel
        f, s = self.f, self.versatz
        zeile = (torch.arange(h, device=device) >= h - f).long() + (torch.arange(h, device=device) >= h - s).long()
        spalte = (torch.arange(w, device=device) >= w - f).long() + (torch.arange(w, device=device) >= w - s).long()
        g = (zeile[:, None] * 3 + spalte[None, :]).view(1, h, w, 1)
        g = self.zerlege(g)[0, :, :, 0]                   # (nF, f*f)
        return g[:, :, None] == g[:, None, :]

    def forward(self, x):
        b, h, w, c = x.shape
        s = self.versatz
        z = torch.roll(x, (-s, -s), (1, 2)) if s else x
        z = self.zerlege(z)
        n, t = z.shape[1], z.shape[2]
        q, k, v = self.qkv(z).view(b, n, t, 3, self.koepfe, -1).permute(3, 0, 1, 4, 2, 5)
        tau = self.log_tau.clamp(max=math.log(100.0)).exp()
        e = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * tau
        e = e + 16 * torch.sigmoid(self.mlp(self.ab)).permute(2, 0, 1)
        if s:
            ok = self.gebiet(h, w, x.device)
            e = e.masked_fill(~ok[None, :, None], float("-inf"))
        o = (e.softmax(-1) @ v).transpose(2, 3).reshape(b, n, t, c)
        o = self.fuege(self.raus(o), h, w)
        if s:
            o = torch.roll(o, (s, s), (1, 2))
        return x + self.norm(o)
