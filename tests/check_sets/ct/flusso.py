"""Attenzione a flusso: le chiavi arrivano a blocchi, la memoria resta costante.

Serve al sensore sismico, che non tiene in RAM tutta la finestra.
"""
import numpy as np


class Accumulatore:
    """Stato corrente per ogni domanda: massimo, somma degli esponenziali, media pesata."""

    def __init__(self, righe, colonne):
        self.massimo = np.full((righe, 1), -np.inf)
        self.somma = np.zeros((righe, 1))
        self.media = np.zeros((righe, colonne))

    def aggiungi(self, punteggi, valori):
        nuovo = np.maximum(self.massimo, punteggi.max(axis=1, keepdims=True))
        vecchio = np.exp(self.massimo - nuovo)
        e = np.exp(punteggi - nuovo)
        totale = self.somma * vecchio + e.sum(axis=1, keepdims=True)
        # la media è già normalizzata a ogni passo
        self.media = (self.media * (self.somma * vecchio) + e @ valori) / totale
        self.somma, self.massimo = totale, nuovo

    def log_somma(self):
        return (self.massimo + np.log(self.somma))[:, 0]


def attenzione_a_flusso(domande, chiavi, valori, blocco=4):
    """
    domande (n, d), chiavi (m, d), valori (m, c), con m >= 1.

    Risultato: softmax(domande chiavi^T / sqrt(d)) valori, forma (n, c), insieme
    al logaritmo naturale del denominatore, forma (n,). L'ultimo blocco può
    essere più corto degli altri. Nessuna maschera.
    """
    n, d = domande.shape
    stato = Accumulatore(n, valori.shape[1])
    scalate = domande / np.sqrt(d)
    for inizio in range(0, len(chiavi), blocco):
        fetta = slice(inizio, inizio + blocco)
        stato.aggiungi(scalate @ chiavi[fetta].T, valori[fetta])
    return stato.media, stato.log_somma()
