"""TD 3 -- Le masque causal (corrigé).

Question 1. Écrire une attention où le mot numéro i ne voit que les mots 0..i.
Question 2. Vérifier que changer le dernier mot ne change rien aux précédents.
"""
import numpy as np


def masque_triangulaire(n):
    """Matrice (n, n) à AJOUTER aux scores : 0 = permis, -inf = interdit (j > i)."""
    M = np.zeros((n, n))
    lignes, colonnes = np.triu_indices(n, 1)
    M[lignes, colonnes] = -np.inf
    return M


def attention_causale(Q, K, V):
    """softmax(Q K^T / sqrt(d) + M) V, sur les deux derniers axes.

    Q, K : (..., n, d)   V : (..., n, p)   (même n : auto-attention)
    Renvoie (sortie (..., n, p), poids (..., n, n)) ; chaque ligne des poids
    somme à 1 et poids[..., i, j] = 0 pour j > i.
    """
    n, d = Q.shape[-2:]
    S = np.matmul(Q, np.swapaxes(K, -1, -2))
    S = S / np.sqrt(d) + masque_triangulaire(n)
    # la diagonale est toujours permise : le max de chaque ligne est fini
    P = np.exp(S - np.max(S, axis=-1, keepdims=True))
    P /= np.sum(P, axis=-1, keepdims=True)
    return np.matmul(P, V), P


def question_2(n=5, d=4, graine=0):
    """Différence maximale sur les n-1 premiers mots (doit être 0)."""
    r = np.random.default_rng(graine)
    Q, K, V = r.normal(size=(3, n, d))
    a, _ = attention_causale(Q, K, V)
    K2, V2 = K.copy(), V.copy()
    K2[-1] += 10.0
    V2[-1] -= 10.0
    b, _ = attention_causale(Q, K2, V2)
    return np.abs(a[:-1] - b[:-1]).max()


if __name__ == "__main__":
    print("écart :", question_2())
