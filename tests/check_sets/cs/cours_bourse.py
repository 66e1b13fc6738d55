"""Attention a decroissance temporelle pour series de cotations irregulieres."""
import numpy as np


def moyenne_attentive(requete, cotes, temps, instant, demi_vie, W_q, W_k):
    """Resume un historique de cotations pour un seul instant.

    requete  (d,)    etat courant du portefeuille
    cotes    (n, p)  cotations passees
    temps    (n,)    dates des cotations, toutes <= instant
    demi_vie  duree apres laquelle le poids (avant normalisation) est divise par deux
    W_q (d, a), W_k (p, a)

    poids_j  proportionnel a  exp(q.k_j / sqrt(a)) * 2 ** (-(instant - t_j) / demi_vie)
    Retourne (resume (p,), poids (n,)).
    """
    q = requete @ W_q
    k = cotes @ W_k
    energie = k @ q / np.sqrt(W_q.shape[1])
    age = instant - temps
    energie = energie - np.log(2.0) * age / demi_vie
    energie = energie - energie.max()
    poids = np.exp(energie)
    poids = poids / poids.sum()
    return poids @ cotes, poids
