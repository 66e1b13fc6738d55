"""What can I cook tonight?  Attention of a pantry over the ingredients of recipes.

The corpus is static and the app asks for the same recipes again and again, so the
weights are remembered between calls.
"""
import hashlib

import numpy as np

UNITS = {"tsp": 4.93, "tbsp": 14.79, "cup": 236.6, "ml": 1.0, "dl": 100.0}


def millilitres(amount, unit):
    return amount * UNITS[unit]


def fingerprint(a):
    a = np.ascontiguousarray(a)
    return hashlib.blake2b(a.tobytes(), digest_size=12).hexdigest() + str(a.shape)


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


class PantryAttention:
    """Scaled dot-product attention with remembered weights.

    __call__(pantry (m, d), recipe (n, d), amounts (n, e)) -> (m, e)
    pantry rows are the queries; ingredient rows of the recipe are the keys and
    their amounts the values.
    """

    def __init__(self, dim, inner=12, capacity=256, seed=0):
        g = np.random.default_rng(seed)
        self.wq = g.normal(0, 1 / np.sqrt(dim), (dim, inner))
        self.wk = g.normal(0, 1 / np.sqrt(dim), (dim, inner))
        self.capacity = capacity
        self._memo = {}
        self.hits = self.misses = 0

    def weights(self, pantry, recipe):
        key = fingerprint(recipe)
        if key in self._memo:
            self.hits += 1
            return self._memo[key]
        self.misses += 1
        q, k = pantry @ self.wq, recipe @ self.wk
        w = softmax(q @ k.T / np.sqrt(k.shape[-1]))
        if len(self._memo) >= self.capacity:
            self._memo.pop(next(iter(self._memo)))
        self._memo[key] = w
        return w

    def __call__(self, pantry, recipe, amounts):
        pantry, recipe = np.asarray(pantry, float), np.asarray(recipe, float)
        return self.weights(pantry, recipe) @ np.asarray(amounts, float)


class Cookbook:
    def __init__(self, vectors, seed=0):
        self.vectors = vectors                       # word -> (d,)
        d = len(next(iter(vectors.values())))
        self.attention = PantryAttention(d, seed=seed)
        self.recipes = {}

    def add(self, name, ingredients):
        """ingredients: list of (word, amount, unit)"""
        words = [w for w, _, _ in ingredients]
        ml = np.array([[millilitres(a, u)] for _, a, u in ingredients])
        self.recipes[name] = (np.stack([self.vectors[w] for w in words]), ml / ml.sum())

    def cover(self, name, pantry_words):
        keys, share = self.recipes[name]
        pantry = np.stack([self.vectors[w] for w in pantry_words])
        return float(self.attention(pantry, keys, share).mean())

    def rank(self, pantry_words):
        return sorted(self.recipes, key=lambda n: -self.cover(n, pantry_words))


if __name__ == "__main__":
    g = np.random.default_rng(7)
    words = "flour milk egg sugar butter cardamom rye salt cream leek".split()
    book = Cookbook({w: g.normal(size=16) for w in words})
    book.add("pulla", [("flour", 7, "dl"), ("milk", 2.5, "dl"), ("cardamom", 1, "tbsp"), ("butter", 1, "cup")])
    book.add("purjokeitto", [("leek", 3, "dl"), ("cream", 2, "dl"), ("salt", 1, "tsp")])
    print(book.rank(["flour", "egg", "milk"]))
    print(book.rank(["leek", "salt", "cream"]))
