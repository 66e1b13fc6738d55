"""FAQ bot without dependencies (it runs in the intranet's Python 3.6, please no numpy).

A question vector looks at the vectors of all FAQ entries and comes back with a weight
for every entry and the weighted mean of the entries' answer vectors:

    weight_i  ~  exp( cos(question, entry_i) / temperature ),   weights add up to 1

question     list of d floats
entries      list of n lists of d floats
answers      list of n lists of m floats
retired      set of indexes that must not be used any more (weight 0)
temperature  positive float

Returns (weights, mean).  If there is no entry left: (all-zero weights, None).
"""
from math import exp, sqrt


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    size = sqrt(sum(x * x for x in a)) * sqrt(sum(y * y for y in b))
    return dot / size if size else 0.0


def look_up(question, entries, answers, retired=frozenset(), temperature=0.1):
    logit = {
        i: cosine(question, e) / temperature for i, e in enumerate(entries) if i not in retired
    }
    if not logit:
        return [0.0] * len(entries), None
    best = max(logit.values())
    mass = {i: exp(s - best) for i, s in logit.items()}
    total = sum(mass.values())
    weights = [mass.get(i, 0.0) / total for i in range(len(entries))]
    mean = [
        sum(w * row[j] for w, row in zip(weights, answers) if w) for j in range(len(answers[0]))
    ]
    return weights, mean


def best_entries(question, entries, n=3, **kw):
    """The n most useful entries, best first, as (index, weight)."""
    weights, _ = look_up(question, entries, entries, **kw)
    return sorted(enumerate(weights), key=lambda p: -p[1])[:n]
