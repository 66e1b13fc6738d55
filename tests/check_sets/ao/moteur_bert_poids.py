"""Mini moteur d'inference CamemBERT : aucun nn.Module, seulement le dictionnaire de poids.

    poids = torch.load("model.bin")     # noms de Hugging Face
    reponses = encoder_phrases(poids, config, ["Le chat dort.", "Il pleut"], tokeniseur)
"""
import torch
import torch.nn.functional as F


def lin(x, poids, nom):
    return F.linear(x, poids[nom + ".weight"], poids[nom + ".bias"])


def norme(x, poids, nom, eps):
    return F.layer_norm(x, x.shape[-1:], poids[nom + ".weight"], poids[nom + ".bias"], eps)


def remplir(phrases, tokeniseur, pad):
    """liste de phrases -> (ids [B, L], garde [B, L] booleen, vrai = vrai mot)"""
    listes = [tokeniseur(p) for p in phrases]
    L = max(map(len, listes))
    ids = torch.full((len(listes), L), pad)
    for i, l in enumerate(listes):
        ids[i, : len(l)] = torch.tensor(l)
    longueurs = torch.tensor([len(l) for l in listes])
    return ids, torch.arange(L)[None] < longueurs[:, None]


def auto_attention(x, garde, poids, pre, config):
    """x [B, L, D]; garde [B, L], vrai = on peut regarder ce mot"""
    B, L, D = x.shape
    n = config["num_attention_heads"]

    def tetes(t):
        return t.view(B, L, n, D // n).transpose(1, 2)

    q = tetes(lin(x, poids, pre + ".self.query"))
    k = tetes(lin(x, poids, pre + ".self.key"))
    v = tetes(lin(x, poids, pre + ".self.key"))
    s = q @ k.mT / (D // n) ** 0.5
    s = s.masked_fill(~garde[:, None, None, :], -torch.inf)
    y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, L, D)
    return lin(y, poids, pre + ".output.dense")


def couche(x, garde, poids, i, config):
    pre = f"roberta.encoder.layer.{i}"
    eps = config["layer_norm_eps"]
    y = auto_attention(x, garde, poids, pre + ".attention", config)
    x = norme(x + y, poids, pre + ".attention.output.LayerNorm", eps)
    y = F.gelu(lin(x, poids, pre + ".intermediate.dense"))
    y = lin(y, poids, pre + ".output.dense")
    return norme(x + y, poids, pre + ".output.LayerNorm", eps)


def plongement(ids, garde, poids, config):
    pad = config["pad_token_id"]
    # RoBERTa : les positions commencent a pad + 1 et sautent le remplissage
    pos = garde.long().cumsum(1) * garde + pad
    e = "roberta.embeddings."
    x = poids[e + "word_embeddings.weight"][ids] + poids[e + "position_embeddings.weight"][pos]
    x = x + poids[e + "token_type_embeddings.weight"][0]
    return norme(x, poids, "roberta.embeddings.LayerNorm", config["layer_norm_eps"])


@torch.no_grad()
def encoder_phrases(poids, config, phrases, tokeniseur):
    ids, garde = remplir(phrases, tokeniseur, config["pad_token_id"])
    x = plongement(ids, garde, poids, config)
    for i in range(config["num_hidden_layers"]):
        x = couche(x, garde, poids, i, config)
    g = garde[..., None].float()
    return F.normalize((x * g).sum(1) / g.sum(1), dim=-1)


def chercher(requete, documents, k=5):
    """requete [D], documents [N, D], deja normalises"""
    notes = documents @ requete
    v, i = notes.topk(min(k, len(documents)))
    return list(zip(i.tolist(), v.tolist()))
