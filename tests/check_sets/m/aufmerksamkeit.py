import numpy as np


def aufmerksamkeit(anfragen, schluessel, werte, gueltig=None):
    """Skalarprodukt-Aufmerksamkeit.

    anfragen (n, t, d), schluessel (n, s, d), werte (n, s, e); gueltig (n, s): True, wo ein Schlüssel gesehen werden darf.
    Eine Zeile ohne gültigen Schlüssel ergibt null.
    """
    punkte = np.einsum("ntd,nsd->nts", anfragen, schluessel) / np.sqrt(anfragen.shape[-1])
    if gueltig is None:
        gueltig = np.ones(schluessel.shape[:2], dtype=bool)
    erlaubt = np.broadcast_to(gueltig[:, None, :], punkte.shape)
    groesste = np.max(np.where(erlaubt, punkte, -np.inf), axis=-1, keepdims=True)
    groesste = np.where(np.isfinite(groesste), groesste, 0)
    gewichte = np.where(erlaubt, np.exp(np.where(erlaubt, punkte - groesste, -np.inf)), 0)
    summe = gewichte.sum(axis=-1, keepdims=True)
    gewichte = np.divide(gewichte, summe, out=np.zeros_like(gewichte), where=summe > 0)
    return gewichte @ np.where(gueltig[:, :, None], werte, 0)
