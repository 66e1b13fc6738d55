import torch


def pentes(n):
    """ALiBi slopes for n heads, n a power of two (Press et al.)."""
    return torch.tensor([2.0 ** (-8.0 * h / n) for h in range(n)])


def lecture(demandes, cles, contenus):
    """Causal ALiBi attention.

    demandes (B, H, T, d), cles and contenus (B, H, S, d), S >= T, H a power of two;
    the T queries are the last T positions.
    """
    B, H, T, d = demandes.shape
    S = cles.shape[2]
    ou = torch.arange(S - T, S, device=cles.device)[:, None]
    j = torch.arange(S, device=cles.device)[None, :]
    ecart = (ou - j).to(demandes.dtype)
    note = demandes @ cles.transpose(-1, -2) / d ** 0.5
    note = note - pentes(H).to(note)[:, None, None] * ecart
    note = note.masked_fill(j > ou, float("-inf"))
    return note.softmax(-1) @ contenus
