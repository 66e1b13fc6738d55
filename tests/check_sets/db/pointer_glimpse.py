import torch
import torch.nn as nn


class Viajante(nn.Module):
    """Paso de una red de punteros para el viajante de comercio (Bello et al.).

    ciudades:  (B, n, d)   codificaciones
    estado:    (B, d)      estado del decodificador
    visitadas: (B, n) bool True = ya visitada; queda al menos una libre por fila.
    Devuelve log-probabilidades (B, n); las visitadas valen -inf.
    """

    def __init__(self, d=12, tope=10.0):
        super().__init__()
        self.tope = tope
        self.mirar_e, self.mirar_c = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.mirar_v = nn.Parameter(torch.randn(d))
        self.punt_e, self.punt_c = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.punt_v = nn.Parameter(torch.randn(d))

    def forward(self, estado, ciudades, visitadas):
        oculto = torch.tanh(self.mirar_e(estado).unsqueeze(1) + self.mirar_c(ciudades))
        u = (oculto @ self.mirar_v).masked_fill(visitadas, float("-inf"))
        vistazo = torch.bmm(u.softmax(1).unsqueeze(1), ciudades).squeeze(1)
        oculto = torch.tanh(self.punt_e(vistazo).unsqueeze(1) + self.punt_c(ciudades))
        u = self.tope * torch.tanh(oculto @ self.punt_v)
        return u.masked_fill(visitadas, float("-inf")).log_softmax(1)
