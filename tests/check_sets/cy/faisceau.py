import torch
from torch import nn


class Faisceau(nn.Module):
    """Decodeur a une couche avec cache, et recherche en faisceau de largeur K.

    cherche(debut, pas): debut = jeton de depart -> (K, pas + 1) jetons, (K,) scores,
    du meilleur au moins bon. Le score d'une hypothese est la somme des
    log-probabilites que le modele donne a ses jetons.
    """

    def __init__(self, vocab, dim=24, tetes=2, K=3, max_len=32):
        super().__init__()
        self.K, self.h, self.d = K, tetes, dim // tetes
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.norme = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)
        self.tete = nn.Linear(dim, vocab)

    def un_pas(self, jeton, t, cache):
        x = self.emb(jeton) + self.pos.weight[t]
        q, k, v = self.qkv(self.norme(x)).view(-1, 3, self.h, 1, self.d).unbind(1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        a = (q @ k.transpose(-1, -2) * self.d ** -0.5).softmax(-1)
        x = x + self.o((a @ v).flatten(1))
        return self.tete(x).log_softmax(-1), (k, v)

    @torch.no_grad()
    def cherche(self, debut, pas):
        dev = self.emb.weight.device
        suites = torch.full((self.K, 1), debut, dtype=torch.long, device=dev)
        score = torch.full((self.K,), float("-inf"), device=dev)
        score[0] = 0.0
        cache = None
        for t in range(pas):
            lp, cache = self.un_pas(suites[:, -1], t, cache)
            total = score[:, None] + lp
            score, plat = total.flatten().topk(self.K)
            parent, mot = plat // lp.shape[1], plat % lp.shape[1]
            suites = torch.cat([suites[parent], mot[:, None]], dim=1)
            cache = (cache[0][parent], cache[1])
        return suites, score

    forward = cherche
