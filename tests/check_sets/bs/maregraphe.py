"""Combler les lacunes d'un marégraphe par régression à noyau (Nadaraya-Watson).

C'est une attention sans poids appris : la question est l'instant demandé, les clefs sont les
instants mesurés, les valeurs sont les hauteurs d'eau.  Score = -|t - t_i|^2 / (2 h^2), plus un
terme périodique pour la marée M2.  Pas de racine de d : la largeur h joue ce rôle.
"""
import numpy as np

M2 = 12.4206012          # heures


class Noyau:
    def __init__(self, largeur=6.0, poids_m2=1.5):
        self.largeur = float(largeur)
        self.poids_m2 = float(poids_m2)

    def __call__(self, t, ti):
        ecart = t[:, None] - ti[None, :]
        lent = -0.5 * (ecart / self.largeur) ** 2
        maree = self.poids_m2 * (np.cos(2 * np.pi * ecart / M2) - 1.0)
        return lent + maree


def log_somme_exp(s, axe):
    m = np.max(s, axis=axe, keepdims=True)
    m = np.where(np.isfinite(m), m, 0.0)
    return m + np.log(np.sum(np.exp(s - m), axis=axe, keepdims=True))


class Maregraphe:
    """heures [n], hauteurs [n] ou [n, c] ; NaN = panne du capteur."""

    def __init__(self, heures, hauteurs, noyau=None):
        self.heures = np.asarray(heures, float)
        h = np.asarray(hauteurs, float)
        self.hauteurs = h[:, None] if h.ndim == 1 else h
        self.noyau = noyau or Noyau()

    def estimer(self, t, exclure_soi=False):
        """Hauteurs estimées aux instants t [m] -> [m, c].

        exclure_soi : ne pas utiliser une mesure faite à l'instant même (validation croisée)."""
        t = np.asarray(t, float)
        s = self.noyau(t, self.heures)                                  # [m, n]
        if exclure_soi:
            s = np.where(t[:, None] == self.heures[None, :], -np.inf, s)
        colonnes = []
        for c in range(self.hauteurs.shape[1]):
            v = self.hauteurs[:, c]
            bon = np.isfinite(v)
            sc = np.where(bon[None, :], s, -np.inf)
            a = np.exp(sc - log_somme_exp(sc, 1))
            colonnes.append(a @ np.where(bon, v, 0.0))
        return np.stack(colonnes, axis=1)


def combler(heures, hauteurs, largeur=6.0, poids_m2=1.5):
    """Remplace les NaN de `hauteurs` par l'estimation, garde le reste."""
    m = Maregraphe(heures, hauteurs, Noyau(largeur, poids_m2))
    est = m.estimer(heures).reshape(np.shape(hauteurs))
    return np.where(np.isnan(hauteurs), est, hauteurs)


def erreur_croisee(heures, hauteurs, largeurs):
    res = {}
    for h in largeurs:
        e = Maregraphe(heures, hauteurs, Noyau(h)).estimer(heures, exclure_soi=True)[:, 0]
        res[h] = float(np.sqrt(np.nanmean((e - hauteurs) ** 2)))
    return res


if __name__ == "__main__":
    t = np.arange(0.0, 96.0, 0.5)
    z = 2.1 * np.cos(2 * np.pi * t / M2) + 0.3 * np.sin(t / 20)
    z[40:58] = np.nan
    print(combler(t, z)[40:58].round(2))
    print(erreur_croisee(t, z, [2.0, 6.0, 12.0]))
