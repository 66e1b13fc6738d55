# Kurzzeitgedächtnis für den Empfehlungsdienst.
# Ein Besucher wird geöffnet (open), seine Klicks werden angehängt (push),
# und read() liefert den gewichteten Mittelwert der Klicks zu einer Anfrage.
import time
import numpy as np

EREIGNISSE = {"view": 0.0, "cart": 0.7, "buy": 1.3}   # additiver Bonus je Ereignisart
HALBWERT_S = 1800.0


class SessionMemory:
    """open(uid) / push(uid, vec, art, zeit) / read(uid, anfrage, zeit).

    Gewicht eines Klicks i:
        softmax_i( <Wq a, Wk x_i> / sqrt(r)  +  Bonus(art_i)  -  ln2 * Alter_i / Halbwertszeit )
    Ergebnis: Summe der Gewichte mal x_i @ Wv. Ein leeres Gedächtnis liefert Nullen.
    """

    def __init__(self, dim, rang=16, seed=0, groesse=200):
        rng = np.random.default_rng(seed)
        self.r = rang
        self.Wq = rng.normal(0, dim ** -0.5, (dim, rang))
        self.Wk = rng.normal(0, dim ** -0.5, (dim, rang))
        self.Wv = rng.normal(0, dim ** -0.5, (dim, dim))
        self.groesse = groesse
        self._buch = {}

    def open(self, uid):
        self._buch[uid] = {"k": [], "v": [], "bonus": [], "zeit": []}

    def close(self, uid):
        self._buch.pop(uid, None)

    def push(self, uid, vec, art="view", zeit=None):
        b = self._buch[uid]
        vec = np.asarray(vec, dtype=np.float64)
        b["k"].append(vec @ self.Wk)
        b["v"].append(vec @ self.Wv)
        b["bonus"].append(EREIGNISSE[art])
        b["zeit"].append(time.time() if zeit is None else float(zeit))
        if len(b["k"]) > self.groesse:          # ältesten Klick vergessen
            for spalte in b.values():
                del spalte[0]

    def read(self, uid, anfrage, zeit=None):
        b = self._buch[uid]
        if not b["k"]:
            return np.zeros(self.Wv.shape[1])
        jetzt = time.time() if zeit is None else float(zeit)
        K, V = np.stack(b["k"]), np.stack(b["v"])
        q = np.asarray(anfrage, dtype=np.float64) @ self.Wq
        alter = jetzt - np.asarray(b["zeit"])
        s = K @ q / np.sqrt(self.r)
        s = s + np.asarray(b["bonus"]) - np.log(2.0) * alter / HALBWERT_S
        s -= s.max()
        w = np.exp(s)
        w /= w.sum()
        return w @ V
