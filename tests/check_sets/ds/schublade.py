"""Ein Schrank, viele Schubladen: KV-Speicher in Seiten für den Dekodierschritt (torch)."""
import torch


def schublade_lesen(q, schrank_k, schrank_v, plan, laenge):
    """Ein Dekodierschritt für einen Stapel von Folgen.

    q          (B, H, d)         neue Anfragen, ein Token je Folge
    schrank_k  (P, S, H, d)      P Schubladen mit je S Fächern
    schrank_v  (P, S, H, d)
    plan       (B, M) int64      plan[b, m] ist die Schublade, in der die Token
                                 m*S .. m*S+S-1 der Folge b liegen (Schlüssel und
                                 Werte an derselben Stelle); unbenutzt: 0
    laenge     (B,) int64        Zahl der gültigen Token je Folge, mindestens 1 und
                                 höchstens M*S
    Rückgabe   (B, H, d)         softmax(q k^T / sqrt(d)) v über die gültigen Token

    M ist höchstens P.  Fächer hinter dem Ende einer Folge zählen nicht mit, sie
    enthalten endliche Zahlen.
    """
    B, H, d = q.shape
    S = schrank_k.size(1)
    M = plan.size(1)
    token = torch.arange(M * S, device=q.device)
    seite, fach = token // S, token % S
    k = schrank_k[plan[:, seite], fach]                        # (B, M*S, H, d)
    v = schrank_v[seite, fach].expand(B, -1, -1, -1)
    s = torch.einsum("bhd,bthd->bht", q, k) / d ** 0.5
    gueltig = token[None, :] < laenge[:, None]
    s = s.masked_fill(~gueltig[:, None, :], float("-inf"))
    return torch.einsum("bht,bthd->bhd", torch.softmax(s, dim=-1), v)


def ablegen(schrank, plan, laenge, neu):
    """Schreibt neu (B, H, d) an die Stelle ``laenge`` jeder Folge (vor dem Erhöhen)."""
    S = schrank.size(1)
    b = torch.arange(plan.size(0), device=plan.device)
    schrank[plan[b, laenge // S], laenge % S] = neu
    return schrank
