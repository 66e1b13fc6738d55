"""Querschnittsmodell fuer Aktien: jeder Titel schaut auf die anderen Titel des Tages.

querschnitt(X, handelbar, P) -> Y, G
    X          [T, N, F]  Merkmale von N Titeln an T Tagen (NaN, wo kein Kurs da ist)
    handelbar  [T, N]     bool, True = Titel wurde an dem Tag gehandelt
    P          dict: Wq, Wk [F, d], Wv [F, m]
    Y          [T, N, m]  Mischung der gehandelten Titel, auch fuer den Titel selbst
    G          [T, N, N]  Gewichte; G[t, i, j] = Anteil von j an i
Zeilen nicht gehandelter Titel sind Null; an Feiertagen (niemand handelt) ist alles Null.
Gewichte: softmax_j( q_i . k_j / sqrt(d) ) ueber die gehandelten j.
"""
import numpy as np


def rang(X, maske):
    """Merkmale je Tag in Raenge auf [-1, 1], fehlende Titel werden 0"""
    R = np.zeros_like(X, dtype=float)
    for t in range(X.shape[0]):
        idx = np.flatnonzero(maske[t])
        if len(idx) < 2:
            continue
        r = X[t, idx].argsort(0).argsort(0)
        R[t, idx] = 2.0 * r / (len(idx) - 1) - 1.0
    return R


def querschnitt(X, handelbar, P):
    Z = rang(X, handelbar)
    Q, K, V = Z @ P["Wq"], Z @ P["Wk"], Z @ P["Wv"]
    S = np.matmul(Q, K.transpose(0, 2, 1)) / np.sqrt(Q.shape[-1])
    paar = handelbar[:, :, None] & handelbar[:, None, :]
    S = np.where(paar, S, -np.inf)
    oben = S.max(axis=-1, keepdims=True)
    oben = np.where(np.isfinite(oben), oben, 0.0)
    E = np.exp(S - oben)
    summe = E.sum(axis=-1, keepdims=True)
    G = np.divide(E, summe, out=np.zeros_like(E), where=summe > 0)
    return G @ V, G


def ic(vorhersage, rendite, maske):
    """mittlere Korrelation von Vorhersage [T, N] und Rendite [T, N]"""
    werte = []
    for p, r, m in zip(vorhersage, rendite, maske):
        if m.sum() > 2:
            werte.append(np.corrcoef(p[m], r[m])[0, 1])
    return float(np.mean(werte)) if werte else 0.0
