import numpy as np


def aufmerksamkeit_stueckweise(anfragen, schluessel, werte, block=4):
    """Softmax-Aufmerksamkeit, Schluessel in Bloecken (Online-Softmax).

    anfragen (Lq, d), schluessel (Lk, d), werte (Lk, dv) -> (Lq, dv).
    Rechnet in float64, gibt den Typ der Werte zurueck.
    """
    q = np.asarray(anfragen, dtype=np.float64)
    lq, d = q.shape
    m = np.full((lq, 1), -np.inf)
    nenner = np.zeros((lq, 1))
    zaehler = np.zeros((lq, werte.shape[1]))
    for a in range(0, len(schluessel), block):
        kb = schluessel[a:a + block].astype(np.float64)
        vb = werte[a:a + block].astype(np.float64)
        s = q @ kb.T / np.sqrt(d)
        m_neu = np.maximum(m, s.max(axis=1, keepdims=True))
        faktor = np.exp(m - m_neu)
        p = np.exp(s - m_neu)
        nenner = nenner * faktor + p.sum(axis=1, keepdims=True)
        zaehler = zaehler * faktor + p @ vb
        m = m_neu
    return (zaehler / nenner).astype(werte.dtype)
