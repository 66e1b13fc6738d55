"""Uwaga strumieniowa po blokach kluczy (wersja NumPy, do zrozumienia FlashAttention).

Nigdy nie budujemy całej macierzy wyników: dla każdego bloku kluczy trzymamy
bieżące maksimum, mianownik i licznik. Dane: odczyty liczników ciepła w blokach
mieszkalnych, stąd długie ciągi.

Przyczynowa z oknem: zapytanie i widzi klucze j, dla których 0 <= i - j < okno
(okno kluczy razem z sobą samym); okno=None znaczy: cała przeszłość.
"""
import numpy as np


def uwaga_strumieniowa(q, k, v, okno=None, blok=16, zwroc_lse=False):
    """q, k, v: tablice (..., n, d) tej samej długości n. Skala 1/sqrt(d).

    Zwraca (..., n, d_v), a przy zwroc_lse=True także logarytm naturalny
    mianownika, kształt (..., n).
    """
    q, k, v = (np.asarray(t, dtype=np.float64) for t in (q, k, v))
    n, d = q.shape[-2:]
    if okno is None:
        okno = n
    if okno < 1:
        raise ValueError("okno musi być >= 1")

    q = q / np.sqrt(d)
    wiersz = np.arange(n)[:, None]
    maks = np.full(q.shape[:-1] + (1,), -np.inf)
    mian = np.zeros_like(maks)
    licz = np.zeros(q.shape[:-1] + (v.shape[-1],))

    for start in range(0, n, blok):
        kol = np.arange(start, min(start + blok, n))
        s = q @ np.swapaxes(k[..., kol, :], -1, -2)
        widac = (wiersz - kol >= 0) & (wiersz - kol < okno)
        s = np.where(widac, s, -np.inf)

        nowe = np.maximum(maks, s.max(axis=-1, keepdims=True))
        odniesienie = np.where(np.isneginf(nowe), 0.0, nowe)   # nic jeszcze nie widać
        p = np.exp(s - odniesienie)
        korekta = np.exp(maks - odniesienie)
        mian = mian * korekta + p.sum(axis=-1, keepdims=True)
        licz = licz * korekta + p @ v[..., kol, :]
        maks = nowe

    wynik = licz / mian            # każdy wiersz widzi co najmniej siebie
    if zwroc_lse:
        return wynik, (maks + np.log(mian))[..., 0]
    return wynik


if __name__ == "__main__":
    r = np.random.default_rng(3)
    print(uwaga_strumieniowa(*r.normal(size=(3, 2, 50, 8)), okno=12).shape)
