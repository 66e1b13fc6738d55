"""Perhatian per blok untuk rekaman gempa yang panjang (NumPy murni).

Softmax daring ala FlashAttention: kunci dibaca sepotong demi sepotong, dan
maksimum, penyebut, serta akumulator diperbarui bersama-sama.
"""
import numpy as np

STASIUN = ["BBJI", "LEM", "UGM", "JAGI", "DNP"]


def sta_lta(jejak, ns=5, nl=40):
    """Pemicu klasik STA/LTA, dipakai hanya untuk memilih jendela."""
    e = np.asarray(jejak, float) ** 2
    c = np.concatenate([[0.0], np.cumsum(e)])
    sta = (c[nl:] - c[nl - ns:-ns]) / ns
    lta = (c[nl:] - c[:-nl]) / nl
    return sta / np.maximum(lta, 1e-12)


def perhatian_blok(q, k, v, sahih=None, blok=16, kausal=False):
    """
    q [..., Lq, d], k [..., Lk, d], v [..., Lk, dv]
    sahih [..., Lk] boolean, True = sampel sahih (bukan celah telemetri)
    kausal: kueri terakhir sejajar dengan kunci terakhir
    Baris tanpa kunci yang sahih menghasilkan nol.
    """
    q, k, v = (np.asarray(t) for t in (q, k, v))
    Lq, d = q.shape[-2:]
    Lk = k.shape[-2]
    tipe = np.result_type(q, np.float32)
    q = q.astype(tipe) / np.sqrt(d).astype(tipe)
    bentuk = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])

    m = np.full(bentuk + (Lq, 1), -np.inf, tipe)     # maksimum berjalan
    z = np.zeros(bentuk + (Lq, 1), tipe)             # penyebut
    acc = np.zeros(bentuk + (Lq, v.shape[-1]), tipe)
    posisi = np.arange(Lq)[:, None] + (Lk - Lq)

    for a in range(0, Lk, blok):
        b = min(a + blok, Lk)
        s = q @ np.swapaxes(k[..., a:b, :], -1, -2).astype(tipe)
        s = np.broadcast_to(s, bentuk + s.shape[-2:]).copy()
        if sahih is not None:
            s = np.where(sahih[..., None, a:b], s, -np.inf)
        if kausal:
            s = np.where(np.arange(a, b)[None, :] <= posisi, s, -np.inf)
        m_baru = np.maximum(m, s.max(-1, keepdims=True))
        aman = np.where(np.isneginf(m_baru), 0, m_baru)
        p = np.exp(s - aman)
        koreksi = np.exp(np.where(np.isneginf(m), -np.inf, m - aman))
        z = z * koreksi + p.sum(-1, keepdims=True)
        acc = acc * koreksi + p @ v[..., a:b, :].astype(tipe)
        m = m_baru
    return np.where(z > 0, acc / np.where(z > 0, z, 1), 0)


class Penyandi:
    """Satu lapis penyandi gelombang tiga komponen; bobot acak tetap."""

    def __init__(self, kanal=3, dim=16, benih=7):
        r = np.random.default_rng(benih)
        self.masuk = r.normal(size=(kanal, dim)) / np.sqrt(kanal)
        self.wq, self.wk, self.wv = (r.normal(size=(dim, dim)) / np.sqrt(dim) for _ in range(3))

    def __call__(self, gelombang, sahih=None):
        h = gelombang @ self.masuk
        return h + perhatian_blok(h @ self.wq, h @ self.wk, h @ self.wv, sahih)


if __name__ == "__main__":
    g = np.random.default_rng(0).normal(size=(len(STASIUN), 200, 3))
    print(Penyandi()(g).shape)
