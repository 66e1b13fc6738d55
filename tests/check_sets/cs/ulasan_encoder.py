import torch
import torch.nn as nn


class PerhatianUlasan(nn.Module):
    """Scaled dot-product multi-head self-attention untuk ulasan produk.

    token: (B, L, dim); panjang: (B,) jumlah token asli (>= 1), sisanya padding
    di sebelah kanan.  Token padding tidak boleh diperhatikan oleh token mana pun.
    """

    def __init__(self, dim, kepala):
        super().__init__()
        self.kepala = kepala
        self.dim_kepala = dim // kepala
        self.skala = kepala ** -0.5
        self.kueri = nn.Linear(dim, dim)
        self.kunci = nn.Linear(dim, dim)
        self.nilai = nn.Linear(dim, dim)
        self.keluaran = nn.Linear(dim, dim)

    def bagi(self, x):
        return x.unflatten(-1, (self.kepala, self.dim_kepala)).transpose(1, 2)

    def forward(self, token, panjang):
        L = token.size(1)
        q, k, v = self.bagi(self.kueri(token)), self.bagi(self.kunci(token)), self.bagi(self.nilai(token))
        asli = torch.arange(L, device=token.device)[None, :] < panjang[:, None]
        skor = torch.einsum("bhid,bhjd->bhij", q, k) * self.skala
        skor = skor.masked_fill(~asli[:, None, :, None], torch.finfo(skor.dtype).min)
        bobot = skor.softmax(dim=-1)
        return self.keluaran((bobot @ v).transpose(1, 2).flatten(2))
