"""Listen, Attend and Spell: the speller.  MLP-projected dot attention as in Chan et al.:

    e_{i,u} = <phi(s_i), psi(h_u)>,   alpha_i = softmax_u(e_i),   c_i = sum_u alpha_{i,u} h_u

Utterances have different lengths; frames after the end of an utterance take no part and
the weights of the real frames sum to one.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def create_mask(lens, max_len, device=None):
    """(B, max_len), 1.0 for frames of the utterance, 0.0 after its end"""
    return (torch.arange(max_len, device=device)[None, :] < lens[:, None]).float()


class Attend(nn.Module):
    def __init__(self, enc_dim, dec_dim, proj_dim):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(dec_dim, proj_dim), nn.ReLU())
        self.psi = nn.Sequential(nn.Linear(enc_dim, proj_dim), nn.ReLU())

    def forward(self, s_i, h, mask):
        """s_i (B, dec), h (B, U, enc), mask (B, U) -> context (B, enc), alpha (B, U)"""
        energy = torch.bmm(self.psi(h), self.phi(s_i).unsqueeze(2)).squeeze(2)
        attention = F.softmax(energy, dim=1)
        attention = attention * mask
        context = torch.bmm(attention.unsqueeze(1), h).squeeze(1)
        return context, attention


class PyramidListener(nn.Module):
    """each layer halves the time axis by joining neighbours"""

    def __init__(self, in_dim, hid, layers=2):
        super().__init__()
        dims = [in_dim] + [2 * hid] * (layers - 1)
        self.rnns = nn.ModuleList(nn.LSTM(2 * d, hid, batch_first=True, bidirectional=True) for d in dims)

    def forward(self, x, lens):
        for rnn in self.rnns:
            x = x[:, : x.size(1) // 2 * 2]
            x = x.reshape(x.size(0), x.size(1) // 2, -1)
            x, _ = rnn(x)
            lens = lens // 2
        return x, lens


class Speller(nn.Module):
    def __init__(self, vocab, enc_dim, emb=16, dec=32, proj=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell1 = nn.LSTMCell(emb + enc_dim, dec)
        self.cell2 = nn.LSTMCell(dec, dec)
        self.attend = Attend(enc_dim, dec, proj)
        self.char = nn.Linear(dec + enc_dim, vocab)

    def forward(self, h, lens, y):
        mask = create_mask(lens, h.size(1), h.device)
        ctx = h.new_zeros(h.size(0), h.size(2))
        st1 = st2 = None
        out = []
        for t in range(y.size(1)):
            st1 = self.cell1(torch.cat([self.emb(y[:, t]), ctx], dim=1), st1)
            st2 = self.cell2(st1[0], st2)
            ctx, _ = self.attend(st2[0], h, mask)
            out.append(self.char(torch.cat([st2[0], ctx], dim=1)))
        return torch.stack(out, dim=1)


if __name__ == "__main__":
    listener, speller = PyramidListener(20, 12), Speller(30, 24)
    h, l = listener(torch.randn(3, 40, 20), torch.tensor([40, 32, 20]))
    print(speller(h, l, torch.randint(0, 30, (3, 6))).shape)
