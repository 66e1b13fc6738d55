"""Carnet JAX n° 5 : l'attention croisée.

Le décodeur pose des questions (q), la phrase source répond (k, v). Les mots de
remplissage de la source ne doivent jamais répondre.
"""
import jax
import jax.numpy as jnp


def init(cle, dim, dim_source, d):
    """Poids aléatoires d'une tête."""
    c = jax.random.split(cle, 3)
    return {
        "q": jax.random.normal(c[0], (dim, d)) / dim ** 0.5,
        "k": jax.random.normal(c[1], (dim_source, d)) / dim_source ** 0.5,
        "v": jax.random.normal(c[2], (dim_source, d)) / dim_source ** 0.5,
    }


def attention_croisee(p, y, source, masque):
    """Une tête d'attention croisée.

    p      : dictionnaire rendu par init
    y      : (B, T, dim)         états du décodeur
    source : (B, S, dim_source)  états de l'encodeur
    masque : (B, S) bool, True = mot réel, à lire ; False = remplissage, à ignorer.
             Au moins un True par phrase.
    Renvoie (sortie (B, T, d), poids (B, T, S)) : poids = softmax(q k^T / sqrt(d)) sur
    les mots réels, zéro sur le remplissage.
    """
    q = y @ p["q"]
    k = source @ p["k"]
    v = source @ p["v"]

    scores = jnp.einsum("btd,bsd->bts", q, k) / jnp.sqrt(q.shape[-1])
    scores = jnp.where(masque[:, None, :], -1e9, scores)
    poids = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bts,bsd->btd", poids, v), poids


if __name__ == "__main__":
    cle = jax.random.PRNGKey(0)
    p = init(cle, 6, 5, 4)
    y = jax.random.normal(cle, (2, 3, 6))
    s = jax.random.normal(cle, (2, 7, 5))
    m = jnp.arange(7) < jnp.array([[7], [4]])
    print(attention_croisee(p, y, s, m)[1].round(2))
