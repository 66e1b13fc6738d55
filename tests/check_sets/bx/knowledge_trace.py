"""Traçage des connaissances : prédire la réponse d'un élève (NumPy).

Attention monotone, un exercice t ne regarde que les exercices s < t (jamais
lui-même, dont la réponse est à prédire) :

    score(t, s) = exp(-theta * (t - s)) * q_t . k_s / sqrt(d)

avec un theta > 0 par tête ; softmax sur les s < t.  Le premier exercice n'a pas
de passé : son vecteur de contexte est nul.
"""
import numpy as np


class Tracer:
    def __init__(self, poids, tetes=2):
        self.p = poids
        self.tetes = tetes

    def contexte(self, questions, reponses):
        """questions (T, d), reponses (T, d) -> contexte (T, d)"""
        T, dim = questions.shape
        d = dim // self.tetes
        q = (questions @ self.p["q"]).reshape(T, self.tetes, d)
        k = (questions @ self.p["k"]).reshape(T, self.tetes, d)
        v = (reponses @ self.p["v"]).reshape(T, self.tetes, d)
        sortie = np.zeros((T, self.tetes, d))
        theta = np.logaddexp(0.0, self.p["theta"])          # softplus
        for t in range(1, T):
            recul = t - np.arange(t)
            s = np.einsum("hd,shd->hs", q[t], k[:t]) / np.sqrt(d)
            s = s * np.exp(-theta[:, None] * recul[None, :])
            s = np.exp(s - s.max(axis=1, keepdims=True))
            a = s / s.sum(axis=1, keepdims=True)
            sortie[t] = np.einsum("hs,shd->hd", a, v[:t])
        return sortie.reshape(T, dim) @ self.p["o"]

    def probabilites(self, ids, justes):
        """ids (T,) numéros d'exercice, justes (T,) 0/1 -> P(juste) à chaque pas"""
        x = self.p["exercice"][ids]
        y = x + self.p["juste"][justes]
        c = self.contexte(x, y)
        logit = np.concatenate([x, c], axis=1) @ self.p["tete"]
        return 1.0 / (1.0 + np.exp(-logit))


def poids_initiaux(n_exercices=30, dim=8, tetes=2, graine=0):
    g = np.random.default_rng(graine)
    m = lambda *s: g.normal(size=s) / np.sqrt(s[0])
    return {"exercice": g.normal(size=(n_exercices, dim)), "juste": g.normal(size=(2, dim)),
            "q": m(dim, dim), "k": m(dim, dim), "v": m(dim, dim), "o": m(dim, dim),
            "theta": g.normal(size=tetes) - 1.0, "tete": m(2 * dim)}
