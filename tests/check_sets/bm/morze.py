"""Декодер азбуки Морзе с зашумлённого эфира (только NumPy).

Детектор даёт последовательность длительностей (точка, тире, паузы); этот слой
читает её авторегрессионно.  Можно подавать всё сразу, кусками или по одному
элементу: состояние хранит ключи и значения, и ответ от разбиения не зависит.
"""
import numpy as np

ALFAVIT = {".-": "А", "-...": "Б", ".--": "В", "--.": "Г", "-..": "Д", ".": "Е", "...-": "Ж"}


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def sin_pozicii(n0, n, d):
    """Синусоидальные позиции n0 .. n0+n-1."""
    t = np.arange(n0, n0 + n)[:, None]
    w = 10000.0 ** (-np.arange(0, d, 2) / d)
    p = np.empty((n, d))
    p[:, 0::2] = np.sin(t * w)
    p[:, 1::2] = np.cos(t * w)
    return p


class SloyVnimaniya:
    """Причинное многоголовое внимание с накопителем.

    golov - число голов.  Элемент видит себя и всё, что было до него, включая
    элементы из прошлых вызовов.
    """

    def __init__(self, d, golov, seed=0):
        assert d % golov == 0
        r = np.random.default_rng(seed)
        self.d, self.h, self.e = d, golov, d // golov
        self.Wq, self.Wk, self.Wv, self.Wo = r.normal(0, d ** -0.5, (4, d, d))
        self.sbros()

    def sbros(self):
        self.K = self.V = None

    def _golovy(self, x, W):
        B, L, _ = x.shape
        return (x @ W).reshape(B, L, self.h, self.e).transpose(0, 2, 1, 3)

    def __call__(self, x):
        """x: (B, L, d) - новые элементы, возвращает (B, L, d)."""
        B, L, _ = x.shape
        q, k, v = self._golovy(x, self.Wq), self._golovy(x, self.Wk), self._golovy(x, self.Wv)
        if self.K is not None:
            k = np.concatenate([self.K, k], axis=2)
            v = np.concatenate([self.V, v], axis=2)
        self.K, self.V = k, v

        ocenki = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.e)
        vidno = np.tril(np.ones((L, k.shape[2]), dtype=bool))
        vesa = softmax(np.where(vidno, ocenki, -np.inf))
        y = np.einsum("bhij,bhjd->bhid", vesa, v).reshape(B, L, self.d)
        return y @ self.Wo


class Dekoder:
    def __init__(self, d=16, golov=4, sloyov=2, seed=1):
        r = np.random.default_rng(seed)
        self.vhod = r.normal(0, 1, (3, d))
        self.sloi = [SloyVnimaniya(d, golov, seed + i + 1) for i in range(sloyov)]
        self.W1, self.W2 = r.normal(0, d ** -0.5, (2, sloyov, d, d))
        self.vyhod = r.normal(0, d ** -0.5, (d, len(ALFAVIT) + 1))
        self.d, self.n = d, 0

    def __call__(self, priznaki):
        """priznaki: (B, L, 3) = (длительность, уровень, это_пауза)"""
        x = priznaki @ self.vhod + sin_pozicii(self.n, priznaki.shape[1], self.d)
        self.n += priznaki.shape[1]
        for i, sloy in enumerate(self.sloi):
            x = x + sloy(x)
            x = x + np.tanh(x @ self.W1[i]) @ self.W2[i]
        return softmax(x @ self.vyhod)


def v_bukvy(kod):
    return "".join(ALFAVIT.get(s, "?") for s in kod.split())


if __name__ == "__main__":
    dek = Dekoder()
    for _ in range(3):
        print(dek(np.random.rand(1, 5, 3)).argmax(-1))
    print(v_bukvy(".-- . -.. ."))
