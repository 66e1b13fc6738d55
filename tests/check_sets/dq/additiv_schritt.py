"""Skript zur Vorlesung "Maschinelle Übersetzung", Abschnitt 4.2: additive Bewertung.

Ein kleines Netz bewertet jedes Paar aus Dekoderzustand s und Kodiererzustand h_j:

    e_j = v^T tanh(W [s ; h_j]),    a = softmax(e),    c = sum_j a_j h_j

[s ; h_j] bedeutet: beide Vektoren hintereinander gehängt.
"""
import torch


def additiver_kontext(s, H, W, v, laengen):
    """Kontextvektor für einen Dekoderschritt.

    s       : (B, n)     Dekoderzustand (die Anfrage)
    H       : (B, S, m)  Kodiererzustände, rechts aufgefüllt
    W       : (a, n + m)
    v       : (a,)
    laengen : (B,) ganze Zahlen >= 1; Stellen j >= laengen[b] sind Füllung, Gewicht 0
    Ergebnis: (c (B, m), a (B, S)); a summiert sich zu 1 und hängt von s und von H ab.
    """
    B, S, m = H.shape

    # Schritt 1: die Anfrage für jede Stelle wiederholen und anhängen
    anfrage = s.unsqueeze(1).expand(B, S, s.shape[1])
    paare = torch.cat([anfrage, H], dim=-1)                # (B, S, n + m)

    # Schritt 2: das kleine Netz
    verdeckt = paare @ W.T
    e = verdeckt @ v

    # Schritt 3: Füllung ausblenden
    fuellung = torch.arange(S) >= laengen.unsqueeze(1)
    e = e.masked_fill(fuellung, float("-inf"))

    # Schritt 4: Softmax über die Quellwörter und Mischung
    a = torch.softmax(e, dim=1)
    c = torch.einsum("bs,bsm->bm", a, H)
    return c, a


if __name__ == "__main__":
    torch.manual_seed(0)
    c, a = additiver_kontext(torch.randn(2, 3), torch.randn(2, 5, 4),
                             torch.randn(6, 7), torch.randn(6), torch.tensor([5, 3]))
    print(c.shape, a)
