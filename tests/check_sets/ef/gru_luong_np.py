"""Greedy decoder with global attention, inference only, NumPy (for the phone).

Per step (Luong et al. 2015, "dot"):
    h   = GRU(x, h)
    a   = softmax_s(h . e_s)
    c   = sum_s a_s e_s
    h~  = tanh(Wc [c ; h])          attentional vector
    y   = argmax(Wy h~)
and h~ is concatenated to the embedding of the next step (input feeding).

decode(P, enc, h0, first, steps)
    P    dict: emb (V,E); W (3H,E+H), U (3H,H), b (3H,) gates r,z,n;
         Wc (H,2H), Wy (V,H)
    enc  (S, H) states of one sentence, h0 (H,), first: id of <s>
    returns list of ids, attention (steps, S), attentional vectors (steps, H)
"""
import numpy as np

sigmoid = lambda t: 1.0 / (1.0 + np.exp(-t))


def gru(x, h, P):
    gx = P["W"] @ x + P["b"]
    gh = P["U"] @ h
    H = h.size
    r = sigmoid(gx[:H] + gh[:H])
    z = sigmoid(gx[H:2 * H] + gh[H:2 * H])
    n = np.tanh(gx[2 * H:] + r * gh[2 * H:])
    return (1 - z) * n + z * h


def attend(h, enc):
    s = enc @ h
    a = np.exp(s - s.max())
    a /= a.sum()
    return a @ enc, a


def decode(P, enc, h0, first, steps):
    h, feed, y = h0, np.zeros_like(h0), first
    ids, maps, vecs = [], [], []
    for _ in range(steps):
        h = gru(np.concatenate([P["emb"][y], feed]), h, P)
        c, a = attend(h, enc)
        feed = P["Wc"] @ np.concatenate([c, h])
        y = int(np.argmax(P["Wy"] @ feed))
        ids.append(y); maps.append(a); vecs.append(feed)
    return ids, np.stack(maps), np.stack(vecs)
