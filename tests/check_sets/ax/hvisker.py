"""hvisker: lille NumPy-afkoder til talegenkendelse, vægtene læses fra et fladt dict.

Navnene i dict'en er dem fra OpenAI's checkpoint, fx
``decoder.blocks.0.attn.query.weight`` (form [ud, ind]).  ``key`` har ingen bias.
Alt regnes i float32; formen er [tid, d] (en lydfil ad gangen).
"""
import numpy as np


def lag_norm(x, w, navn, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    s = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * w[navn + ".weight"] + w[navn + ".bias"]


def lineær(x, w, navn):
    y = x @ w[navn + ".weight"].T
    b = w.get(navn + ".bias")
    return y if b is None else y + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def blødmaks(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def opmærksomhed(x, w, navn, hoveder, kilde=None, lager=None, kausal=False):
    """Flerhovedet opmærksomhed.

    x:      [t, d] forespørgsler
    kilde:  [s, d] lydens indkodning (krydsopmærksomhed) eller None (selv)
    lager:  dict; 'k'/'v' med form [hoveder, s, d_h].  Ved krydsopmærksomhed
            fyldes det én gang, ellers vokser det med hvert kald.
    kausal: en række må ikke se senere rækker; tidligere kald kan altid ses.

    Som i originalen ganges både q og k med d_h ** -0.25.
    """
    t, d = x.shape
    dh = d // hoveder
    del_op = lambda a: a.reshape(-1, hoveder, dh).swapaxes(0, 1)

    q = del_op(lineær(x, w, navn + ".query"))
    if kilde is not None and lager is not None and "k" in lager:
        k, v = lager["k"], lager["v"]
    else:
        fra = x if kilde is None else kilde
        k = del_op(lineær(fra, w, navn + ".key"))
        v = del_op(lineær(fra, w, navn + ".value"))
        if kilde is None and lager is not None and "k" in lager:
            k = np.concatenate([lager["k"], k], axis=1)
            v = np.concatenate([lager["v"], v], axis=1)
        if lager is not None:
            lager["k"], lager["v"] = k, v

    skala = dh ** -0.25
    point = (q * skala) @ (k * skala).swapaxes(-1, -2)
    if kausal:
        s = k.shape[1]
        række = np.arange(s - t, s)[:, None]
        point = np.where(np.arange(s)[None, :] <= række, point, -np.inf)
    ud = blødmaks(point) @ v
    return lineær(ud.swapaxes(0, 1).reshape(t, d), w, navn + ".out")


def afkoder_blok(x, lyd, w, nr, hoveder, lager):
    n = f"decoder.blocks.{nr}"
    x = x + opmærksomhed(lag_norm(x, w, n + ".attn_ln"), w, n + ".attn", hoveder,
                         lager=lager[nr]["selv"], kausal=True)
    x = x + opmærksomhed(lag_norm(x, w, n + ".cross_attn_ln"), w, n + ".cross_attn", hoveder,
                         kilde=lyd, lager=lager[nr]["kryds"])
    h = gelu(lineær(lag_norm(x, w, n + ".mlp_ln"), w, n + ".mlp.0"))
    return x + lineær(h, w, n + ".mlp.2")


def nyt_lager(lag):
    return [{"selv": {}, "kryds": {}} for _ in range(lag)]


def afkod(tokens, lyd, w, lag, hoveder, lager=None):
    """Logits for ``tokens`` ([t]); med lager fortsættes hvor sidste kald slap."""
    lager = nyt_lager(lag) if lager is None else lager
    fortid = lager[0]["selv"]["k"].shape[1] if "k" in lager[0]["selv"] else 0
    x = w["decoder.token_embedding.weight"][tokens]
    x = x + w["decoder.positional_embedding"][fortid:fortid + len(tokens)]
    for nr in range(lag):
        x = afkoder_blok(x, lyd, w, nr, hoveder, lager)
    x = lag_norm(x, w, "decoder.ln")
    return x @ w["decoder.token_embedding.weight"].T


def skriv_ned(lyd, w, start, slut, lag, hoveder, højst=64):
    lager = nyt_lager(lag)
    ud, ny = list(start), list(start)
    while len(ud) < højst:
        logits = afkod(np.array(ny), lyd, w, lag, hoveder, lager)
        ny = [int(logits[-1].argmax())]
        ud += ny
        if ny[0] == slut:
            break
    return ud
