# Norwegian -> Northern Sami toy translator, exam project INF5820
import torch
import torch.nn as nn
import torch.nn.functional as F


class Koder(nn.Module):
    def __init__(self, ordforraad, skjult):
        super().__init__()
        self.emb = nn.Embedding(ordforraad, skjult)
        self.gru = nn.GRU(skjult, skjult, batch_first=True)

    def forward(self, x):
        return self.gru(self.emb(x))


class OppmerksomDekoder(nn.Module):
    """GRU decoder; before each word it looks at the encoder states with attention, so that the weights
    tell how well each source state fits the present decoder state."""

    def __init__(self, ordforraad, skjult, max_lengde=30, p=0.1):
        super().__init__()
        self.max_lengde = max_lengde
        self.emb = nn.Embedding(ordforraad, skjult)
        self.dropout = nn.Dropout(p)
        self.attn = nn.Linear(2 * skjult, max_lengde)
        self.kombiner = nn.Linear(2 * skjult, skjult)
        self.gru = nn.GRUCell(skjult, skjult)
        self.ut = nn.Linear(skjult, ordforraad)

    def forward(self, ord_, h, koder_ut):
        # ord_ [B], h [B, S], koder_ut [B, L, S]
        e = self.dropout(self.emb(ord_))
        L = koder_ut.size(1)
        poeng = self.attn(torch.cat((e, h), 1))[:, :L]
        vekter = F.softmax(poeng, dim=1)
        kontekst = torch.bmm(vekter.unsqueeze(1), koder_ut).squeeze(1)
        x = F.relu(self.kombiner(torch.cat((e, kontekst), 1)))
        h = self.gru(x, h)
        return F.log_softmax(self.ut(h), dim=1), h, vekter


def tren_steg(koder, dekoder, opt, kilde, maal, bos=1):
    koder_ut, h = koder(kilde)
    h = h[0]
    inn = torch.full((kilde.size(0),), bos, dtype=torch.long)
    tap = 0.0
    for t in range(maal.size(1)):
        logp, h, _ = dekoder(inn, h, koder_ut)
        tap = tap + F.nll_loss(logp, maal[:, t])
        inn = maal[:, t]
    opt.zero_grad()
    tap.backward()
    opt.step()
    return tap.item() / maal.size(1)


@torch.no_grad()
def oversett(koder, dekoder, kilde, steg=20, bos=1, eos=2):
    koder_ut, h = koder(kilde)
    h, ord_, ferdig = h[0], torch.full((kilde.size(0),), bos), []
    for _ in range(steg):
        logp, h, _ = dekoder(ord_, h, koder_ut)
        ord_ = logp.argmax(1)
        ferdig.append(ord_)
        if (ord_ == eos).all():
            break
    return torch.stack(ferdig, 1)
