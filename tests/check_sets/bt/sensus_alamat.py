"""Pencocokan alamat rumah tangga untuk sensus (tanpa pustaka berat).

Potongan alamat ("RT 03", "Jl. Melati", "depan masjid") saling memperhatikan, lalu
dirata-ratakan. Alamat pendek diisi potongan kosong; `isi` bernilai 1 untuk potongan asli
dan 0 untuk potongan kosong, dan potongan kosong tidak boleh ikut dibaca.
"""
import numpy as np


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


class Kamus:
    def __init__(self, dim, acak, ukuran=997):
        self.ukuran = ukuran
        self.tabel = acak.normal(size=(ukuran, dim))

    def indeks(self, potong):
        h = 7
        for c in potong.lower():
            h = (h * 31 + ord(c)) % self.ukuran
        return h

    def __call__(self, alamat, panjang):
        """daftar alamat -> (x [B, N, dim], isi [B, N])"""
        x = np.zeros((len(alamat), panjang, self.tabel.shape[1]))
        isi = np.zeros((len(alamat), panjang))
        for b, a in enumerate(alamat):
            for n, p in enumerate(a.split(",")[:panjang]):
                x[b, n] = self.tabel[self.indeks(p.strip())]
                isi[b, n] = 1.0
        return x, isi


class PerhatianAlamat:
    """Perhatian hasil kali titik berskala (Vaswani dkk.), banyak kepala."""

    def __init__(self, dim, kepala, acak):
        self.kepala = kepala
        s = dim ** -0.5
        self.wq, self.wk, self.wv, self.wo = (acak.normal(size=(dim, dim)) * s for _ in range(4))

    def pecah(self, t):
        b, n, dim = t.shape
        return t.reshape(b, n, self.kepala, dim // self.kepala).transpose(0, 2, 1, 3)

    def __call__(self, x, isi):
        b, n, dim = x.shape
        q, k, v = self.pecah(x @ self.wq), self.pecah(x @ self.wk), self.pecah(x @ self.wv)
        skor = q @ k.transpose(0, 1, 3, 2)
        skor = skor / np.sqrt(q.shape[1])
        skor = skor * isi[:, None, None, :]
        bobot = softmax(skor)
        y = (bobot @ v).transpose(0, 2, 1, 3).reshape(b, n, dim)
        return y @ self.wo


class Pencocok:
    def __init__(self, dim=20, kepala=4, benih=0):
        acak = np.random.default_rng(benih)
        self.kamus = Kamus(dim, acak)
        self.perhatian = PerhatianAlamat(dim, kepala, acak)

    def vektor(self, alamat, panjang=6):
        x, isi = self.kamus(alamat, panjang)
        h = x + self.perhatian(x, isi)
        r = (h * isi[..., None]).sum(1) / np.maximum(isi.sum(1, keepdims=True), 1)
        return r / np.linalg.norm(r, axis=1, keepdims=True)

    def mirip(self, a, b):
        return self.vektor(a) @ self.vektor(b).T


if __name__ == "__main__":
    p = Pencocok()
    print(p.mirip(["Jl. Melati 4, RT 03, RW 01", "Gg. Buntu, RT 05"], ["RT 03, RW 01, Jl. Melati 4"]))
