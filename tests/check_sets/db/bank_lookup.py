import torch
import torch.nn.functional as F


def szukaj(pytania, bank, tresc, ile=4, temperatura=0.1, zakaz=None):
    """Retrieval: each question reads the `ile` closest bank entries.

    pytania (B, L, d), bank (N, d), tresc (N, e).
    zakaz   (B, N) bool, True = that entry is off limits for that sample (for instance the
            document itself); every sample keeps at least one entry.
    Weights are a softmax of cosine / temperatura over the chosen entries.
    Where fewer than `ile` are allowed, the surplus ids carry weight 0.
    Returns read (B, L, e), weights (B, L, ile'), ids (B, L, ile') with ile' = min(ile, N).
    """
    cos = F.normalize(pytania, dim=-1) @ F.normalize(bank, dim=-1).T
    if zakaz is not None:
        cos = cos.masked_fill(zakaz[:, None, :], float("-inf"))
    top, ids = cos.topk(min(ile, bank.shape[0]), dim=-1)
    wagi = torch.softmax(top / temperatura, dim=-1)
    return (wagi.unsqueeze(-1) * tresc[ids]).sum(-2), wagi, ids
