import torch


def frase(empaquetado, voces, distancia):
    """Causal attention over note events with a learned bias per distance.

    empaquetado (B, T, voces * 3 * d): output of the fused projection, stored head by head,
        each head as its query, key and value one after the other (GPT-NeoX layout)
    distancia (voces, T): bias for reading the event n steps back, n = 0 .. T - 1
    An event reads itself and earlier events. Returns (B, T, voces * d).
    """
    B, T, ancho = empaquetado.shape
    d = ancho // (3 * voces)
    q, k, v = empaquetado.view(B, T, 3, voces, d).permute(2, 0, 3, 1, 4)
    puntos = q @ k.transpose(-1, -2) * d ** -0.5
    n = torch.arange(T, device=q.device)
    atras = (n[:, None] - n[None, :]).clamp(min=0)
    puntos = puntos + distancia[:, atras]
    futuro = torch.triu(torch.ones(T, T, device=q.device), diagonal=2).bool()
    pesos = puntos.masked_fill(futuro, float("-inf")).softmax(-1)
    return (pesos @ v).transpose(1, 2).reshape(B, T, voces * d)
