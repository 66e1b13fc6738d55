# Rekurrenter Decoder fuer die Spracherkennung, nur NumPy (Inferenz).
# Gewichte kommen als dict aus dem Training (npz). Alles in float64.

import numpy as np

BOS, EOS = 0, 1


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def zufallsgewichte(enc=10, dec=8, att=6, vok=12, seed=0):
    r = np.random.RandomState(seed)
    w = lambda *s: r.randn(*s) / np.sqrt(s[-1])
    return {
        'W_s': w(att, dec), 'W_h': w(att, enc), 'b': np.zeros(att), 'v': w(att),
        'emb': w(vok, dec),
        'gru_x': w(3 * dec, dec + enc), 'gru_h': w(3 * dec, dec), 'gru_b': np.zeros(3 * dec),
        'aus': w(vok, dec + enc),
    }


class Ausrichter(object):
    """Additive Aufmerksamkeit (Bahdanau 2015):  e_t = v^T tanh(W_s s + W_h h_t + b)

    rahmen : (T, enc) Encoderzustaende einer Aeusserung, mit Nullen aufgefuellt
    laenge : Anzahl der echten Rahmen; alles dahinter wird nie angeschaut
    """

    def __init__(self, gew, rahmen, laenge=None):
        self.g = gew
        self.h = np.asarray(rahmen)
        self.n = len(self.h) if laenge is None else int(laenge)
        # haengt nicht vom Zustand ab, daher nur einmal je Aeusserung
        self.vorab = self.h.dot(gew['W_h'].T) + gew['b']

    def __call__(self, s):
        e = np.tanh(self.vorab + self.g['W_s'].dot(s)).dot(self.g['v'])
        e = e[:self.n]
        e = np.exp(e - e.max())
        alpha = np.zeros(len(self.h))
        alpha[:self.n] = e / e.sum()
        return alpha.dot(self.h), alpha


def gru(g, x, h):
    d = h.shape[0]
    a = g['gru_x'].dot(x) + g['gru_b']
    c = g['gru_h'].dot(h)
    r = sigmoid(a[:d] + c[:d])
    z = sigmoid(a[d:2 * d] + c[d:2 * d])
    n = np.tanh(a[2 * d:] + r * c[2 * d:])
    return (1 - z) * n + z * h


def dekodiere(gew, rahmen, laenge=None, max_schritte=20):
    """Gierige Suche; liefert Zeichen-Indizes und die Ausrichtungen."""
    blick = Ausrichter(gew, rahmen, laenge)
    s = np.zeros(gew['W_s'].shape[1])
    zeichen, folge, karten = BOS, [], []
    for _ in range(max_schritte):
        kontext, alpha = blick(s)
        s = gru(gew, np.concatenate([gew['emb'][zeichen], kontext]), s)
        zeichen = int(np.argmax(gew['aus'].dot(np.concatenate([s, kontext]))))
        karten.append(alpha)
        if zeichen == EOS:
            break
        folge.append(zeichen)
    return folge, np.array(karten)


if __name__ == '__main__':
    g = zufallsgewichte()
    print(dekodiere(g, np.random.randn(15, 10), laenge=11)[0])
