import torch


def aufmerksamkeit_gepackt(anfragen, schluessel, werte, grenzen_a, grenzen_s, kausal=False):
    # anfragen (Ta, H, d), schluessel (Ts, H, d), werte (Ts, H, d)
    # grenzen: cu_seqlens, (B+1,), z. B. [0, 3, 8]; kausal: unten rechts ausgerichtet
    Ta, Ts = anfragen.shape[0], schluessel.shape[0]
    stelle_a = torch.arange(Ta, device=anfragen.device)
    stelle_s = torch.arange(Ts, device=anfragen.device)
    folge_a = torch.bucketize(stelle_a, grenzen_a[1:], right=True)
    folge_s = torch.bucketize(stelle_s, grenzen_s[1:], right=True)
    erlaubt = folge_a[:, None] == folge_s[None, :]
    if kausal:
        rest_a = grenzen_a[folge_a + 1] - stelle_a
        rest_s = grenzen_s[folge_s + 1] - stelle_s
        erlaubt = erlaubt & (rest_s[None, :] >= rest_a[:, None])
    punkte = torch.einsum("ahd,shd->has", anfragen, schluessel) * anfragen.shape[-1] ** -0.5
    punkte = punkte.masked_fill(~erlaubt, float("-inf"))
    gewichte = torch.softmax(punkte.float(), dim=-1).to(werte.dtype)
    return torch.einsum("has,shd->ahd", gewichte, werte)
