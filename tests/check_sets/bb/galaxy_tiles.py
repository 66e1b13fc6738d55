"""
Blocked attention over a catalogue of galaxies (the full matrix does not fit).

Notebook 07 as a script. Le softmax est accumulé bloc par bloc : on garde le
maximum courant `m`, la somme `l` et la moyenne non normalisée `acc`.
"""
import numpy as np


def tiled_attention(Q, K, V, keep=None, block=64, scale=None):
    """Q (n, d), K (m, d), V (m, e) -> (n, e)

    keep : (n, m) bool ou None, True = la paire compte.
    Une ligne sans aucune paire rend des zéros.
    """
    n, d = Q.shape
    scale = 1.0 / np.sqrt(d) if scale is None else scale
    dt = np.result_type(Q, K, V, np.float32)
    acc = np.zeros((n, V.shape[1]), dt)
    l = np.zeros((n, 1), dt)
    m = np.full((n, 1), -np.inf, dt)

    for a in range(0, K.shape[0], block):
        s = (Q @ K[a:a + block].T).astype(dt) * scale
        if keep is not None:
            s = np.where(keep[:, a:a + block], s, -np.inf)
        m_new = np.maximum(m, s.max(axis=1, keepdims=True))
        # tant qu'aucune clé n'a été vue, m_new = -inf : référence 0
        ref = np.where(np.isneginf(m_new), 0.0, m_new)
        p = np.exp(s - ref)
        corr = np.exp(m - ref)
        l = l * corr + p.sum(axis=1, keepdims=True)
        acc = acc * corr + p @ V[a:a + block]
        m = m_new
    return np.divide(acc, l, out=np.zeros_like(acc), where=l > 0)


def separation(ra, dec):
    """angular separation of all pairs, degrees (haversine)"""
    ra, dec = np.radians(ra), np.radians(dec)
    h = (np.sin((dec[:, None] - dec) / 2) ** 2
         + np.cos(dec[:, None]) * np.cos(dec) * np.sin((ra[:, None] - ra) / 2) ** 2)
    return np.degrees(2 * np.arcsin(np.sqrt(np.clip(h, 0, 1))))


def smooth_redshift(features, z, ra, dec, radius=2.0, block=128):
    """photo-z smoothed over similar galaxies closer than `radius` degrees"""
    near = separation(ra, dec) < radius
    return tiled_attention(features, features, z[:, None], near, block)[:, 0]


def main(n=500, seed=3):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n, 6))
    z = np.abs(rng.normal(0.5, 0.2, n))
    ra, dec = rng.uniform(150, 160, n), rng.uniform(-5, 5, n)
    zs = smooth_redshift(f, z, ra, dec)
    print("scatter before / after: %.3f %.3f" % (z.std(), zs.std()))


if __name__ == "__main__":
    main()
