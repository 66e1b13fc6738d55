# Module « tableur » du guichet des permis de construire.
# Nous venons tous d'un tableur : une fonction = une formule, en MAJUSCULES.
# Lignes = dossiers, colonnes = critères.
import numpy as np


def SOMMEPROD(a, b):
    return (np.asarray(a) * np.asarray(b)).sum(axis=-1)


def PRODUITMAT(a, b):
    return np.matmul(a, b)


def RACINE(x):
    return np.sqrt(x)


def LIGNE_MAX(t):
    return t.max(axis=1, keepdims=True)


def SI(condition, alors, sinon):
    return np.where(condition, alors, sinon)


def EST_VIDE(feuille):
    """VRAI pour une ligne dont toutes les cellules sont vides (NaN)."""
    return np.isnan(feuille).all(axis=1)


def PART_DU_TOTAL(t):
    """Chaque cellule / total de sa ligne ; 0 si le total est nul."""
    total = t.sum(axis=1, keepdims=True)
    return np.divide(t, total, out=np.zeros_like(t), where=total > 0)


def RECHERCHE_ATTENTIVE(demande, repertoire, colonne_resultat, valide):
    """RECHERCHEV floue.

    demande           (n, d)  les dossiers que l'on cherche à classer
    repertoire        (m, d)  les dossiers déjà jugés
    colonne_resultat  (m, r)  ce qui a été décidé
    valide            (m,)    VRAI = dossier utilisable
    Renvoie (n, r) : moyenne pondérée des décisions ; 0 partout si aucun
    dossier n'est utilisable.
    """
    d = demande.shape[1]
    note = PRODUITMAT(demande, repertoire.T) / RACINE(d)
    plancher = np.finfo(note.dtype).min
    note = SI(valide[None, :], note, plancher)
    poids = np.exp(note - LIGNE_MAX(note)) * valide[None, :]
    return PRODUITMAT(PART_DU_TOTAL(poids), colonne_resultat)


def CENTRER_REDUIRE(feuille):
    moyenne = np.nanmean(feuille, axis=0)
    ecart = np.nanstd(feuille, axis=0)
    return (feuille - moyenne) / SI(ecart > 0, ecart, 1.0)


def AVIS(demande, repertoire, decisions, seuil=0.5):
    """'FAVORABLE' / 'A REVOIR' pour chaque demande."""
    valide = ~EST_VIDE(repertoire)
    table = np.nan_to_num(CENTRER_REDUIRE(repertoire))
    cherche = np.nan_to_num(CENTRER_REDUIRE(demande))
    note = RECHERCHE_ATTENTIVE(cherche, table, decisions.reshape(-1, 1).astype(float), valide)
    return [("FAVORABLE" if x >= seuil else "A REVOIR") for x in note[:, 0]]


if __name__ == "__main__":
    g = np.random.default_rng(0)
    print(AVIS(g.normal(size=(3, 4)), g.normal(size=(9, 4)), g.integers(0, 2, 9)))
