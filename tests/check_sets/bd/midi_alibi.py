# Mélodies au piano : décodeur avec biais linéaire de distance (ALiBi).
# Les évènements MIDI sont des entiers ; la génération se fait pas à pas.
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 388      # 128 note-on, 128 note-off, 100 time-shift, 32 vélocité
PAD = 0


def pentes(n):
    """Pentes d'ALiBi. Pour n qui n'est pas une puissance de deux : les pentes de la
    puissance inférieure, puis une sur deux de la puissance supérieure (Press et al.)."""
    def geo(m):
        base = 2.0 ** (-8.0 / m)
        return [base ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return geo(n)
    m = 2 ** int(math.floor(math.log2(n)))
    return geo(m) + geo(2 * m)[0::2][: n - m]


class AttentionAlibi(nn.Module):
    """Auto-attention causale. `passe` = (k, v) des pas précédents ou None."""

    def __init__(self, dim, tetes, p_drop=0.1):
        super().__init__()
        self.tetes = tetes
        self.dh = dim // tetes
        self.entree = nn.Linear(dim, 3 * dim)
        self.sortie = nn.Linear(dim, dim)
        self.p_drop = p_drop
        self.register_buffer("m", torch.tensor(pentes(tetes)).view(1, tetes, 1, 1))

    def _tetes(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.tetes, self.dh).transpose(1, 2)

    def forward(self, x, passe=None):
        b, l, dim = x.shape
        q, k, v = map(self._tetes, self.entree(x).chunk(3, dim=-1))
        if passe is not None:
            k = torch.cat((passe[0], k), 2)
            v = torch.cat((passe[1], v), 2)
        total = k.size(2)
        # positions absolues : les requêtes sont les l dernières
        i = torch.arange(total - l, total, device=x.device).unsqueeze(1)
        j = torch.arange(total, device=x.device).unsqueeze(0)
        biais = (j - i).to(q.dtype) * self.m          # <= 0 dans le passé
        biais = biais.masked_fill(j > i, float("-inf"))
        p = self.p_drop if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=biais, dropout_p=p)
        y = y.transpose(1, 2).reshape(b, l, dim)
        return self.sortie(y), (k, v)


class Pianiste(nn.Module):
    def __init__(self, dim=96, tetes=6, couches=3):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.att = nn.ModuleList(AttentionAlibi(dim, tetes) for _ in range(couches))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(couches))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(couches))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(couches))
        self.tete_lm = nn.Linear(dim, VOCAB)

    def forward(self, ids, cache=None):
        x = self.emb(ids)
        nouveau = []
        for c in range(len(self.att)):
            y, kv = self.att[c](self.n1[c](x), None if cache is None else cache[c])
            nouveau.append(kv)
            x = x + y
            x = x + self.ff[c](self.n2[c](x))
        return self.tete_lm(x), nouveau

    @torch.no_grad()
    def joue(self, amorce, n):
        self.eval()
        logits, cache = self(amorce)
        for _ in range(n):
            suivant = logits[:, -1].argmax(-1, keepdim=True)
            amorce = torch.cat([amorce, suivant], 1)
            logits, cache = self(suivant, cache)
        return amorce
