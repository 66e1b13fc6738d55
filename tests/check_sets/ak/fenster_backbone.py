# Bildmodell mit verschobenen Fenstern (Swin-artig), Bilder als [B, H, W, C].
import torch
import torch.nn as nn


def in_fenster(x, g):
    """[B, H, W, C] -> [B * nF, g * g, C]"""
    B, H, W, C = x.shape
    x = x.view(B, H // g, g, W // g, g, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, g * g, C)


def aus_fenster(f, g, H, W):
    B = f.shape[0] // ((H // g) * (W // g))
    x = f.view(B, H // g, W // g, g, g, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class FensterAufmerksamkeit(nn.Module):
    """Aufmerksamkeit in einem Fenster, mit gelernter relativer Lage.

    maske: [nF, N, N], True wo zwei Bildpunkte einander NICHT sehen duerfen.
    """

    def __init__(self, dim, groesse, koepfe, qkv_bias=True, ausfall=0.0):
        super().__init__()
        self.dim, self.g, self.koepfe = dim, groesse, koepfe
        self.faktor = (dim // koepfe) ** -0.5
        self.lage_tabelle = nn.Parameter(torch.zeros((2 * groesse - 1) ** 2, koepfe))
        nn.init.trunc_normal_(self.lage_tabelle, std=0.02)

        r = torch.arange(groesse)
        koord = torch.stack(torch.meshgrid(r, r, indexing="ij")).flatten(1)
        diff = (koord[:, :, None] - koord[:, None, :]).permute(1, 2, 0) + groesse - 1
        self.register_buffer("lage_index", diff[..., 0] * (2 * groesse - 1) + diff[..., 1],
                             persistent=False)

        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.ausgang = nn.Linear(dim, dim)
        self.ausfall = nn.Dropout(ausfall)

    def forward(self, x, maske=None):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.koepfe, C // self.koepfe)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)

        a = (q * self.faktor) @ k.transpose(-2, -1)
        lage = self.lage_tabelle[self.lage_index.view(-1)].view(N, N, -1)
        a = a + lage.permute(2, 0, 1).unsqueeze(0)

        if maske is not None:
            nF = maske.shape[0]
            a = a.view(B_ // nF, nF, self.koepfe, N, N)
            a = a.masked_fill(maske[None, :, None], float("-inf"))
            a = a.view(B_, self.koepfe, N, N)
        a = self.ausfall(a.softmax(dim=-1))
        return self.ausgang((a @ v).transpose(1, 2).reshape(B_, N, C))


class Stufe(nn.Module):
    def __init__(self, dim, koepfe, groesse=4, schub=0, mlp=4.0):
        super().__init__()
        assert 0 <= schub < groesse
        self.g, self.schub = groesse, schub
        self.norm1 = nn.LayerNorm(dim)
        self.attn = FensterAufmerksamkeit(dim, groesse, koepfe)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, int(dim * mlp)), nn.GELU(),
                                 nn.Linear(int(dim * mlp), dim))

    def schub_maske(self, H, W, device):
        if not self.schub:
            return None
        gebiet = torch.zeros(1, H, W, 1, device=device)
        n = 0
        stuecke = (slice(0, -self.g), slice(-self.g, -self.schub), slice(-self.schub, None))
        for h in stuecke:
            for w in stuecke:
                gebiet[:, h, w, :] = n
                n += 1
        f = in_fenster(gebiet, self.g).squeeze(-1)
        return f[:, None, :] != f[:, :, None]

    def forward(self, x):
        B, H, W, C = x.shape
        rest = x
        x = self.norm1(x)
        if self.schub:
            x = torch.roll(x, (-self.schub, -self.schub), dims=(1, 2))
        f = self.attn(in_fenster(x, self.g), self.schub_maske(H, W, x.device))
        x = aus_fenster(f, self.g, H, W)
        if self.schub:
            x = torch.roll(x, (self.schub, self.schub), dims=(1, 2))
        x = rest + x
        return x + self.mlp(self.norm2(x))


if __name__ == "__main__":
    bild = torch.randn(2, 8, 8, 32)
    print(Stufe(32, 4, schub=2)(bild).shape)
