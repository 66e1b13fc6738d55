"""Hierarchical attention pooling for reviews (Yang et al. 2016) - no libraries, for the blog post.

pool(rows, W, b, ctx)
    rows : list of n >= 1 vectors (lists of floats, length d), e.g. word states of one sentence
    W, b : a x d matrix (list of rows) and bias of length a
    ctx  : context vector, length a
    u_t = tanh(W h_t + b);  alpha = softmax(u_t . ctx);  result = sum alpha_t h_t

document(sentences, word, sent)
    pools the words of each sentence with `word` = (W, b, ctx), then the sentence vectors
    with `sent` (same kind of triple).  Returns the document vector and the sentence weights.
"""
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def softmax(xs):
    hi = max(xs)
    es = [math.exp(x - hi) for x in xs]
    total = math.fsum(es)
    return [e / total for e in es]


def pool(rows, W, b, ctx):
    scores = []
    for h in rows:
        u = [math.tanh(dot(w, h) + bias) for w, bias in zip(W, b)]
        scores.append(dot(u, ctx))
    alpha = softmax(scores)
    mixed = [sum(a * h[i] for a, h in zip(alpha, rows)) for i in range(len(rows[0]))]
    return mixed, alpha


def document(sentences, word, sent):
    vectors = [pool(s, *word)[0] for s in sentences]
    return pool(vectors, *sent)
