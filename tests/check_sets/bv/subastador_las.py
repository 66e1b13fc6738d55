"""Reconocedor de voz para subastadores de ganado (habla muy rápida): Listen-Attend-Spell.

El decodificador recurrente consulta los cuadros con la atención de Bahdanau,
    e_t = v^T tanh(W s + U h_t),   a = softmax(e),   c = sum_t a_t h_t
"""
import torch
import torch.nn as nn


class Piramide(nn.Module):
    """BiLSTM que junta de dos en dos los cuadros."""

    def __init__(self, entra, oculto):
        super().__init__()
        self.rnn = nn.LSTM(2 * entra, oculto // 2, batch_first=True, bidirectional=True)

    def forward(self, x, largos):
        B, T, C = x.shape
        x = x[:, : T - T % 2].reshape(B, T // 2, 2 * C)
        y, _ = self.rnn(x)
        return y, (largos // 2).clamp(min=1)


class AtencionBahdanau(nn.Module):
    """s: [B, Ds] estado; h: [B, T, Dh] cuadros; mascara: [B, T] con 1 = cuadro real, 0 = silencio de relleno.

    Devuelve contexto [B, Dh] y pesos [B, T]; el relleno recibe peso cero.
    """

    def __init__(self, d_s, d_h, d_a):
        super().__init__()
        self.W = nn.Linear(d_s, d_a, bias=False)
        self.U = nn.Linear(d_h, d_a)
        self.v = nn.Linear(d_a, 1, bias=False)

    def forward(self, s, h, mascara=None):
        suma = self.W(s).unsqueeze(1) + self.U(h)
        e = self.v(suma).squeeze(-1)
        if mascara is not None:
            e = e * mascara.to(e.dtype)
        a = torch.softmax(e, dim=-1)
        c = torch.bmm(a.unsqueeze(1), h).squeeze(1)
        return c, a


class Deletreador(nn.Module):
    def __init__(self, letras, d=32):
        super().__init__()
        self.emb = nn.Embedding(letras, d)
        self.celda = nn.LSTMCell(2 * d, d)
        self.at = AtencionBahdanau(d, d, d)
        self.sal = nn.Linear(2 * d, letras)
        self.d = d

    def forward(self, h, mascara, objetivo):
        B = h.shape[0]
        s = h.new_zeros(B, self.d)
        m = h.new_zeros(B, self.d)
        c = h.new_zeros(B, self.d)
        logits = []
        for t in range(objetivo.shape[1]):
            s, m = self.celda(torch.cat([self.emb(objetivo[:, t]), c], -1), (s, m))
            c, _ = self.at(s, h, mascara)
            logits.append(self.sal(torch.cat([s, c], -1)))
        return torch.stack(logits, 1)


class Subastador(nn.Module):
    def __init__(self, mel=20, d=32, letras=40):
        super().__init__()
        self.p1, self.p2 = Piramide(mel, d), Piramide(d, d)
        self.deletrea = Deletreador(letras, d)

    def forward(self, x, largos, objetivo):
        h, n = self.p1(x, largos)
        h, n = self.p2(h, n)
        mascara = (torch.arange(h.shape[1])[None, :] < n[:, None]).long()
        return self.deletrea(h, mascara, objetivo)


if __name__ == "__main__":
    y = Subastador()(torch.randn(2, 16, 20), torch.tensor([16, 9]), torch.randint(0, 40, (2, 5)))
    print(y.shape)
