"""The scriptorium: a monk reads a book leaf by leaf and writes one line.

Plain Python (no libraries), for a talk on how little memory reading needs.

    monk(wish, book, gloss, read_until)
        wish        list of d numbers, what the monk looks for
        book        list of n words, each a list of d numbers
        gloss       list of n meanings, each a list of m numbers
        read_until  1 <= read_until <= n, words from there on are not copied yet
        returns     list of m numbers: the mean of the glosses of the first
                    read_until words, weighted by softmax(wish.word / sqrt(d))

He never holds more than one leaf (`leaf` words): the running sum is brought to
a new scale whenever a more interesting word turns up.
"""
from math import exp, inf, sqrt


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def monk(wish, book, gloss, read_until=None, leaf=3):
    n = len(book) if read_until is None else read_until
    root = sqrt(len(wish))
    best, ink = -inf, 0.0
    line = [0.0] * len(gloss[0])
    for first in range(0, n, leaf):
        last = min(first + leaf, n)
        interest = [dot(wish, word) / root for word in book[first:last]]
        higher = max(best, max(interest))
        fade = exp(best - higher)               # 0.0 on the first leaf
        ink *= fade
        line = [fade * x for x in line]
        for s, meaning in zip(interest, gloss[first:last]):
            drop = exp(s - higher)
            ink += drop
            line = [x + drop * y for x, y in zip(line, meaning)]
        best = higher
    return [x / ink for x in line]


def chapter(wishes, book, gloss):
    """The t-th monk may read the words 0..t only."""
    return [monk(w, book, gloss, t + 1) for t, w in enumerate(wishes)]
