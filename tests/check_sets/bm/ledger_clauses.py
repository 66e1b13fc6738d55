# Clause tagging in commercial leases.  Weights live in a flat dict so that the
# same file runs on the annotator's laptop and inside the batch job.
import math
import torch

SPECIAL = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2}
TAGS = ["rent", "term", "break", "repair", "alienation", "none"]


def init(d=32, heads=4, ff=64, seed=0):
    g = torch.Generator().manual_seed(seed)
    def lin(i, o):
        return torch.randn(i, o, generator=g) * i ** -0.5
    return {
        "heads": heads,
        "wq": lin(d, d), "wk": lin(d, d), "wv": lin(d, d), "wo": lin(d, d),
        "bq": torch.zeros(d), "bk": torch.zeros(d), "bv": torch.zeros(d), "bo": torch.zeros(d),
        "w1": lin(d, ff), "w2": lin(ff, d),
        "g1": torch.ones(d), "g2": torch.ones(d),
    }


def pad_batch(docs, d):
    """list of [n_i, d] -> ([b, n, d], keep [b, n])"""
    n = max(len(x) for x in docs)
    out, keep = torch.zeros(len(docs), n, d), torch.zeros(len(docs), n, dtype=torch.bool)
    for i, x in enumerate(docs):
        out[i, : len(x)] = x
        keep[i, : len(x)] = True
    return out, keep


def norm(x, g):
    return torch.nn.functional.layer_norm(x, x.shape[-1:]) * g


def fold(x, h):
    """[b, n, d] -> [b*h, n, d/h]; one bmm over samples and heads"""
    b, n, d = x.shape
    return x.view(b, n, h, d // h).transpose(1, 2).reshape(b * h, n, d // h)


def unfold(x, h):
    bh, n, e = x.shape
    return x.view(bh // h, h, n, e).transpose(1, 2).reshape(bh // h, n, h * e)


def attend(w, x, keep=None):
    """Multi-head self-attention.

    w     weight dict of ``init``
    x     [b, n, d]
    keep  [b, n] bool, True for real tokens, False for [PAD]; every document has
          at least its [CLS]

    Padding is never attended to, sample by sample.
    """
    h = w["heads"]
    q = fold(x @ w["wq"] + w["bq"], h)
    k = fold(x @ w["wk"] + w["bk"], h)
    v = fold(x @ w["wv"] + w["bv"], h)
    s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
    if keep is not None:
        drop = ~keep[:, None, :]
        s = s.masked_fill(drop.repeat(h, 1, 1), float("-inf"))
    p = torch.softmax(s, dim=-1)
    return unfold(torch.bmm(p, v), h) @ w["wo"] + w["bo"]


def layer(w, x, keep):
    x = x + attend(w, norm(x, w["g1"]), keep)
    return x + torch.relu(norm(x, w["g2"]) @ w["w1"]) @ w["w2"]


def tag(layers, head, docs):
    x, keep = pad_batch(docs, head.shape[0])
    for w in layers:
        x = layer(w, x, keep)
    best = (x @ head).argmax(-1)
    return [[TAGS[t] for t in row[m].tolist()] for row, m in zip(best, keep)]


def main():
    torch.manual_seed(1)
    docs = [torch.randn(n, 32) for n in (5, 9, 7)]
    print(tag([init(seed=i) for i in range(2)], torch.randn(32, len(TAGS)), docs))


if __name__ == "__main__":
    main()
