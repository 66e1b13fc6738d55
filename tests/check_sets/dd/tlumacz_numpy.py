"""Krok dekodera tłumacza: globalna uwaga w stylu Luonga (score = iloczyn skalarny)."""
import numpy as np


def softmax(z, os):
    z = np.exp(z - z.max(axis=os, keepdims=True))
    return z / z.sum(axis=os, keepdims=True)


def uwaga(stany, zrodlo):
    """
    stany:  (B, T, d) stany dekodera dla wszystkich słów docelowych
    zrodlo: (B, S, d) stany enkodera
    Każde słowo docelowe dostaje średnią ważoną stanów zrodla.
    Zwraca kontekst (B, T, d) oraz wagi (B, T, S).
    """
    oceny = np.matmul(stany, zrodlo.transpose(0, 2, 1))
    wagi = softmax(oceny, 1)
    return np.matmul(wagi, zrodlo), wagi


def stan_ukryty(stany, zrodlo, Wc):
    """h~ = tanh([kontekst; stan] Wc), Wc ma kształt (2d, d)"""
    kontekst, wagi = uwaga(stany, zrodlo)
    return np.tanh(np.concatenate([kontekst, stany], axis=-1) @ Wc), wagi
