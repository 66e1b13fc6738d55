import math
import torch


def segment_softmax(x, where, n):
    """x (E, G), where (E,) -> softmax over the edges sharing the same `where`."""
    idx = where[:, None].expand_as(x)
    top = x.new_full((n, x.shape[1]), -math.inf).scatter_reduce(0, idx, x, "amax")
    e = (x - top[where]).exp()
    tot = x.new_zeros(n, x.shape[1]).index_add(0, where, e)
    return e / tot[where]


def spread_over_ledger(accounts, amounts, payer, payee, W, G=4):
    """Each account collects messages from the accounts that paid it.

    accounts (N, D); payer, payee (E,) node numbers, repeated pairs allowed.
    amounts (E,) log-amount of each payment, added to the score through W["amt"] (G,).
    W["look"], W["show"], W["give"]: (D, D).
    Accounts that were never paid get zeros. -> (N, D)
    """
    N, D = accounts.shape
    look, show, give = ((accounts @ W[n]).view(N, G, D // G) for n in ("look", "show", "give"))
    score = (look[payee] * show[payer]).sum(-1) / math.sqrt(D // G)
    score = score + amounts[:, None] * W["amt"]
    a = segment_softmax(score, payee, N)
    msg = a[..., None] * give[payer]
    return accounts.new_zeros(N, G, D // G).index_add(0, payee, msg).flatten(1)
