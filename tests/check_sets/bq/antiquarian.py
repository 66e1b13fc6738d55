"""Second-hand bookshop: a memory of sold books estimates the price of a new find.

A memory of a few million sales lies in a memory-mapped file.  A find attends to
its k best matches only (softmax over those k), everything else has weight zero.
"""
from __future__ import annotations

import argparse
import re

import numpy as np

CONDITION = {"as new": 1.0, "fine": 0.9, "very good": 0.75, "good": 0.5, "fair": 0.3, "poor": 0.1}
BIGRAMS = 97


def embed_title(title: str, year: int, condition: str) -> np.ndarray:
    """hashed character bigrams + year + condition; unit length"""
    t = re.sub(r"[^a-z ]", "", title.lower())
    v = np.zeros(BIGRAMS + 2)
    for a, b in zip(t, t[1:]):
        v[(ord(a) * 31 + ord(b)) % BIGRAMS] += 1.0
    v[-2] = (year - 1900) / 100
    v[-1] = CONDITION[condition]
    return v / np.linalg.norm(v)


class SalesMemory:
    """
    keys   (M, d)   embedded books that were sold
    values (M, e)   what is known about the sale: log price, days on the shelf, ...
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray, k: int = 16, scale: float | None = None):
        if len(keys) != len(values):
            raise ValueError("one value per key, please")
        self.keys, self.values = keys, values
        self.k = min(k, len(keys))
        self.scale = scale if scale is not None else keys.shape[1] ** -0.5

    def recall(self, queries: np.ndarray) -> np.ndarray:
        """queries (n, d) -> (n, e)

        Softmax attention restricted to the k highest scores of every query.
        """
        scores = np.asarray(queries, np.float64) @ np.asarray(self.keys, np.float64).T * self.scale
        best = np.argpartition(-scores, self.k - 1, axis=1)[:, : self.k]
        top = np.take_along_axis(scores, best, axis=1)
        top = np.exp(top - top.max(axis=1, keepdims=True))
        top /= top.sum(axis=1, keepdims=True)
        best.sort(axis=1)                       # the disk likes ascending reads
        return np.einsum("nk,nke->ne", top, np.asarray(self.values[best], np.float64))

    @classmethod
    def open(cls, stem: str, d: int, e: int, **kw) -> "SalesMemory":
        keys = np.memmap(stem + ".keys", np.float32, "r").reshape(-1, d)
        values = np.memmap(stem + ".values", np.float32, "r").reshape(-1, e)
        return cls(keys, values, **kw)


def remember(stem: str, rows: list[tuple[str, int, str, float, float]]) -> None:
    """appends (title, year, condition, price, days) to the files"""
    with open(stem + ".keys", "ab") as fk, open(stem + ".values", "ab") as fv:
        for title, year, cond, price, days in rows:
            fk.write(embed_title(title, year, cond).astype(np.float32).tobytes())
            fv.write(np.array([np.log(price), days], np.float32).tobytes())


def appraise(memory: SalesMemory, title: str, year: int, condition: str) -> str:
    log_price, days = memory.recall(embed_title(title, year, condition)[None])[0]
    return f"{title!r} ({year}, {condition}): about {np.exp(log_price):.2f}, {days:.0f} days on the shelf"


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("stem")
    ap.add_argument("title")
    ap.add_argument("--year", type=int, default=1960)
    ap.add_argument("--condition", choices=list(CONDITION), default="good")
    a = ap.parse_args(argv)
    print(appraise(SalesMemory.open(a.stem, BIGRAMS + 2, 2), a.title, a.year, a.condition))


if __name__ == "__main__":
    main()
