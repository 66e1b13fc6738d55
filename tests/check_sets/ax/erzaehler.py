#!/usr/bin/env python3
"""erzaehler: Märchen schreiben mit einem kleinen Llama, nur NumPy.

Gewichte kommen aus einer .npz-Datei (Namen wie bei HF, Form [aus, ein]).  Drehung nach HF-Art
(erste/zweite Hälfte).  Ein Wort an Stelle p wird um p * theta gedreht, p zählt ab dem Anfang des
Textes, gleich ob er in einem Stück oder Wort für Wort verarbeitet wird.
"""
import sys

import numpy as np


def norm(x, g, eps=1e-5):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def silu(x):
    return x / (1.0 + np.exp(-x))


def weich(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Drehung:
    def __init__(self, dim, laenge=2048, basis=10000.0):
        frequenz = 1.0 / basis ** (np.arange(0, dim, 2) / dim)
        winkel = np.outer(np.arange(laenge), frequenz)
        self.cos = np.concatenate([np.cos(winkel)] * 2, -1)
        self.sin = np.concatenate([np.sin(winkel)] * 2, -1)

    def __call__(self, x, ab=0):
        """x [koepfe, t, dim]; ab = Stelle des ersten Wortes"""
        t, d = x.shape[1:]
        gedreht = np.concatenate([-x[..., d // 2:], x[..., : d // 2]], -1)
        return x * self.cos[ab:ab + t] + gedreht * self.sin[ab:ab + t]


class Aufmerksamkeit:
    """Kausale Aufmerksamkeit mit Gedächtnis; Kopf h liest KV-Kopf h // (koepfe / kv_koepfe)."""

    def __init__(self, g, vorne, koepfe, kv_koepfe, drehung):
        self.wq, self.wk, self.wv, self.wo = (g[f"{vorne}.{n}_proj.weight"] for n in "qkvo")
        self.n, self.m, self.drehung = koepfe, kv_koepfe, drehung
        self.vergiss()

    def vergiss(self):
        self.k = self.v = None

    def __call__(self, x):
        """x [t, breite]: die t neuen Wörter"""
        t = len(x)
        q = (x @ self.wq.T).reshape(t, self.n, -1).swapaxes(0, 1)
        k = (x @ self.wk.T).reshape(t, self.m, -1).swapaxes(0, 1)
        v = (x @ self.wv.T).reshape(t, self.m, -1).swapaxes(0, 1)
        q, k = self.drehung(q), self.drehung(k)
        if self.k is not None:
            k = np.concatenate([self.k, k], 1)
            v = np.concatenate([self.v, v], 1)
        self.k, self.v = k, v

        s = k.shape[1]
        d = q.shape[-1]
        gruppe = q.reshape(self.m, self.n // self.m, t, d)
        punkte = gruppe @ k[:, None].swapaxes(-1, -2) / np.sqrt(d)
        zukunft = np.arange(s)[None, :] > np.arange(s - t, s)[:, None]
        p = weich(np.where(zukunft, -np.inf, punkte))
        y = (p @ v[:, None]).reshape(self.n, t, d).swapaxes(0, 1).reshape(t, -1)
        return y @ self.wo.T


class Erzaehler:
    def __init__(self, g, schichten, koepfe, kv_koepfe):
        self.g, self.schichten = g, schichten
        breite = g["model.embed_tokens.weight"].shape[1]
        dreh = Drehung(breite // koepfe)
        self.att = [Aufmerksamkeit(g, f"model.layers.{i}.self_attn", koepfe, kv_koepfe, dreh) for i in range(schichten)]

    @classmethod
    def aus_datei(cls, pfad, **kw):
        with np.load(pfad) as z:
            return cls({n: z[n].astype(np.float32) for n in z.files}, **kw)

    def neu(self):
        for a in self.att:
            a.vergiss()

    def weiter(self, ids):
        """Logits [len(ids), wörter] für die neuen Wörter"""
        g = self.g
        x = g["model.embed_tokens.weight"][np.asarray(ids)]
        for i, att in enumerate(self.att):
            s = f"model.layers.{i}"
            x = x + att(norm(x, g[f"{s}.input_layernorm.weight"]))
            h = norm(x, g[f"{s}.post_attention_layernorm.weight"])
            h = silu(h @ g[f"{s}.mlp.gate_proj.weight"].T) * (h @ g[f"{s}.mlp.up_proj.weight"].T)
            x = x + h @ g[f"{s}.mlp.down_proj.weight"].T
        return norm(x, g["model.norm.weight"]) @ g["lm_head.weight"].T

    def erzaehle(self, anfang, hoechstens=100, temperatur=0.8, kern=0.9, ende=None, rng=None):
        rng = rng or np.random.default_rng()
        self.neu()
        text = list(anfang)
        logits = self.weiter(text)[-1]
        for _ in range(hoechstens):
            if temperatur == 0:
                wort = int(logits.argmax())
            else:
                p = weich(logits / temperatur)
                folge = np.argsort(-p)
                bis = int(np.searchsorted(np.cumsum(p[folge]), kern)) + 1
                wahl = folge[:bis]
                wort = int(rng.choice(wahl, p=p[wahl] / p[wahl].sum()))
            text.append(wort)
            if wort == ende:
                break
            logits = self.weiter([wort])[-1]
        return text


if __name__ == "__main__":
    e = Erzaehler.aus_datei(sys.argv[1], schichten=6, koepfe=6, kv_koepfe=2)
    print(e.erzaehle([1] + [int(a) for a in sys.argv[2:]]))
