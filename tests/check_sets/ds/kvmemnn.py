"""Key-value memory network (Miller et al. 2016) in plain Python, for the reading group.

No libraries at all, so that each step can be followed with pencil and paper.
"""
from math import exp


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def matvec(M, x):
    return [dot(row, x) for row in M]


def softmax(xs):
    top = max(xs)
    es = [exp(x - top) for x in xs]
    z = sum(es)
    return [e / z for e in es]


def read(q, keys, values):
    """Weights p_i = softmax_i(q . key_i), result sum_i p_i value_i.

    Key addressing in this model is the bare inner product, there is no
    temperature.  An empty memory returns the zero vector.
    """
    if not keys:
        return [0.0] * len(q)
    p = softmax([dot(q, k) for k in keys])
    return [sum(pi * v[c] for pi, v in zip(p, values)) for c in range(len(q))]


def answer_state(question, memory, hops):
    """State after all hops.

    question : list of D floats
    memory   : list of slots (key, value), each a list of D floats, or None for a
               slot that has been erased (erased slots take no part)
    hops     : list of D x D matrices R_1 .. R_n (lists of rows)

    q_1 = question;  q_{j+1} = R_j (q_j + o_j)  with o_j = read(q_j, ...).
    Returns q_{n+1}.
    """
    live = [slot for slot in memory if slot is not None]
    keys = [k for k, _ in live]
    values = [v for _, v in live]
    q = list(question)
    for R in hops:
        o = read(q, keys, values)
        q = matvec(R, [a + b for a, b in zip(q, o)])
    return q
