# -*- coding: utf-8 -*-
"""Lastgangprognose über ähnliche Tage (Stadtwerke, interne Sammlung).

Ein Tag wird durch d Merkmale beschrieben (Temperatur, Feiertag, Schulferien ...).
Für jeden gesuchten Tag werden die Lastgänge der bekannten Tage gewichtet gemittelt:

    w[a, t]  =  softmax über t von  ( gesucht[a] . bekannt[t] ) / sqrt(d)
    lastgang[a] = Summe_t  w[a, t] * last[t]

gesucht : (A, d)    Tage, die vorhergesagt werden
bekannt : (T, d)    Tage aus dem Archiv
last    : (T, 96)   Viertelstundenwerte der Archivtage
fehlt   : (T,) bool, True = Zähler ausgefallen, der Tag darf NICHT benutzt werden
          (seine Werte sind dann beliebig, auch NaN)

Sind alle Tage ausgefallen, kommen Nullen zurück.
"""
import numpy as np


def merkmale(temperatur, feiertag, wochentag):
    """Baut (n, 4) standardisierte Merkmale aus drei Vektoren der Länge n."""
    winkel = 2 * np.pi * np.asarray(wochentag) / 7
    roh = np.stack(
        [np.asarray(temperatur, float), np.asarray(feiertag, float), np.sin(winkel), np.cos(winkel)],
        axis=1,
    )
    streuung = roh.std(axis=0)
    return (roh - roh.mean(axis=0)) / np.where(streuung > 0, streuung, 1.0)


def lastgang(gesucht, bekannt, last, fehlt=None):
    """Gibt (prognose (A, 96), gewichte (A, T)) zurück."""
    gesucht, bekannt, last = (np.asarray(m, dtype=np.float64) for m in (gesucht, bekannt, last))
    gewichte = np.zeros((len(gesucht), len(bekannt)))
    da = np.arange(len(bekannt)) if fehlt is None else np.flatnonzero(~np.asarray(fehlt, bool))
    if da.size == 0:
        return np.zeros((len(gesucht), last.shape[1])), gewichte

    punkte = gesucht @ bekannt[da].T / np.sqrt(gesucht.shape[1])
    punkte -= punkte.max(axis=1, keepdims=True)
    e = np.exp(punkte)
    e /= e.sum(axis=1, keepdims=True)
    gewichte[:, da] = e
    return e @ last[da], gewichte
