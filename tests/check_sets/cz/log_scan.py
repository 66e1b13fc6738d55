import torch


@torch.no_grad()
def scan_logs(probe, lines, facts, page=4):
    """Exact softmax attention of probes over a long log, page by page.

    probe (B, H, T, d), lines (B, H, S, d), facts (B, H, S, f); S need not be a multiple of page.
    Returns (B, H, T, f).
    """
    B, H, T, d = probe.shape
    peak = probe.new_full((B, H, T, 1), float("-inf"))
    mass = probe.new_zeros(B, H, T, 1)
    sums = probe.new_zeros(B, H, T, facts.size(-1))
    for part, fact in zip(lines.split(page, 2), facts.split(page, 2)):
        s = probe @ part.mT * d ** -0.5
        top = torch.maximum(peak, s.amax(-1, keepdim=True))
        w = torch.exp(s - top)
        fade = torch.exp(peak - top)
        mass = mass * fade + w.sum(-1, keepdim=True)
        sums = sums + w @ fact
        peak = top
    return sums / mass
