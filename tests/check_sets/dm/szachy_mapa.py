"""Mapa uwagi dla szachów: na które pola patrzy ruch (numpy, do wykresów w notatniku).

ruch   (Q, D)    wektory rozważanych ruchów
pola   (64, D)   wektory pól szachownicy
Wq, Wk (D, D)    wyuczone macierze, użycie  x @ W
H                liczba głów, D podzielne przez H

mapa_uwagi zwraca tablicę (Q, H, 64).  Dla każdego ruchu i każdej głowy 64 liczby to
softmax( q . k / sqrt(D / H) ) po polach, więc KAŻDA głowa osobno sumuje się do 1.
srednia uśrednia głowy -> (Q, 8, 8), suma jednej planszy wynosi 1.
"""
import numpy as np


def softmax(z, axis):
    z = z - np.max(z, axis=axis, keepdims=True)
    e = np.exp(z)
    return e / np.sum(e, axis=axis, keepdims=True)


def mapa_uwagi(ruch, pola, Wq, Wk, H):
    Q, D = ruch.shape
    d = D // H
    q = (ruch @ Wq).reshape(Q, H, d)
    k = (pola @ Wk).reshape(64, H, d)
    wynik = np.einsum("qhd,phd->qhp", q, k) / np.sqrt(d)
    uwaga = softmax(wynik.reshape(Q, H * 64), axis=1)
    return uwaga.reshape(Q, H, 64)


def srednia(ruch, pola, Wq, Wk, H):
    return mapa_uwagi(ruch, pola, Wq, Wk, H).mean(axis=1).reshape(-1, 8, 8)
