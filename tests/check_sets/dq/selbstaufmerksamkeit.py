"""Übungsblatt 5, Musterlösung: Selbstaufmerksamkeit mit Füllzeichen.

Aufgabe: Ein Stapel Sätze verschiedener Länge ist rechts aufgefüllt. Kein Wort
darf auf ein Füllzeichen schauen.
"""
import numpy as np


def selbstaufmerksamkeit(X, Wq, Wk, Wv, gesperrt):
    """Ein Kopf skalierte Skalarprodukt-Aufmerksamkeit, softmax(Q K^T / sqrt(d)) V.

    X        : (B, n, D)  Wortvektoren
    Wq, Wk   : (D, d)     Projektionen fuer Anfragen und Schluessel
    Wv       : (D, e)
    gesperrt : (B, n) bool, True = Fuellzeichen, darf NICHT angeschaut werden.
               Jeder Satz hat mindestens ein False.
    Ergebnis : (B, n, e)
    """
    d = Wq.shape[1]
    # a) Den Faktor 1/sqrt(d) stecken wir gleich in die Anfragen.
    Q = X @ (Wq / np.sqrt(d))
    K = X @ Wk
    V = X @ Wv

    # b) Punktzahlen: Zeile = wer schaut, Spalte = wohin.
    E = np.einsum("bid,bjd->bij", Q, K)

    # c) gesperrte Spalten
    E = E - np.where(gesperrt[:, None, :], np.inf, 0.0)

    # d) Softmax im Logarithmus: log p = E - log(sum exp E)
    log_p = E - np.logaddexp.reduce(E, axis=2, keepdims=True)
    return np.exp(log_p) @ V


if __name__ == "__main__":
    r = np.random.default_rng(0)
    X = r.normal(size=(2, 4, 6))
    W = [r.normal(size=(6, 3)) for _ in range(3)]
    pad = np.array([[False] * 4, [False, False, True, True]])
    print(selbstaufmerksamkeit(X, *W, pad).shape)
