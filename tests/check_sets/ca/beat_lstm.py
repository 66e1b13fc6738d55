"""
Herzschlag-Klassifikator: ein LSTM über die Abtastwerte eines Schlags, danach der
Mittelwert der Zustände über die gültigen Werte und eine lineare Schicht.

Torreihenfolge wie in PyTorch: Eingang, Vergessen, Zelle, Ausgang.
"""
import numpy as np

KLASSEN = ("normal", "supraventrikulär", "ventrikulär", "Fusion", "unklar")


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


class BeatLSTM:
    def __init__(self, n_in=2, n_hidden=12, seed=0):
        rng = np.random.default_rng(seed)
        s = n_hidden ** -0.5
        self.n_hidden = n_hidden
        self.w_ih = rng.uniform(-s, s, (4 * n_hidden, n_in))
        self.w_hh = rng.uniform(-s, s, (4 * n_hidden, n_hidden))
        self.b = rng.uniform(-s, s, 4 * n_hidden)
        self.w_aus = rng.uniform(-s, s, (len(KLASSEN), n_hidden))
        self.b_aus = np.zeros(len(KLASSEN))

    def schritt(self, x, h, c):
        i, f, g, o = np.split(x @ self.w_ih.T + h @ self.w_hh.T + self.b, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return h, c

    def __call__(self, signal, laenge=None):
        """signal [B, T, n_in], laenge [B] -> Wahrscheinlichkeiten [B, 5]"""
        b, t, _ = signal.shape
        if laenge is None:
            laenge = np.full(b, t)
        h = np.zeros((b, self.n_hidden))
        c = np.zeros((b, self.n_hidden))
        summe = np.zeros_like(h)
        for n in range(t):
            h, c = self.schritt(signal[:, n], h, c)
            summe = summe + h * (n < laenge)[:, None]
        mittel = summe / np.maximum(laenge, 1)[:, None]
        return softmax(mittel @ self.w_aus.T + self.b_aus)


if __name__ == "__main__":
    netz = BeatLSTM()
    p = netz(np.random.default_rng(1).normal(size=(3, 40, 2)), np.array([40, 25, 33]))
    print({k: round(float(w), 3) for k, w in zip(KLASSEN, p[0])})
