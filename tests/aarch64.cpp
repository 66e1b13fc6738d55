// Kernels without Python: that they compute, and flush subnormal numbers while they do and at no other time.
// `make aarch64` builds it for that CPU and runs it on an emulated one.
#include <cmath>
#include <cstdio>
#include <vector>

#include "dispatch.h"
#include "pool.h"

namespace {

volatile float tiny = 1e-40f;
bool flushes() { return tiny * 1.0f == 0; }

// Largest error of an attention of T queries and S keys against the definition, on two threads.
double error(long T, long S, long D) {
  std::vector<float> q(T * D), k(S * D), v(S * D), output(T * D), lse(T), rest(T);
  unsigned state = 1;
  for (auto* x : {&q, &k, &v})
    for (float& y : *x) y = float((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
  overt::Problem p = {};
  p.type = overt::Type::float32;
  p.B = p.H = p.G = 1, p.T = p.whole_rows = T, p.S = p.whole_keys = S, p.D = p.E = D, p.scale = 1 / std::sqrt(D);
  p.q = {q.data(), 0, 0, D}, p.k = {k.data(), 0, 0, D}, p.v = {v.data(), 0, 0, D};
  overt::LogSum sums = {lse.data(), rest.data()};
  if (!overt::level(nullptr)->kernels.forward(p, {2, true}, output.data(), &sums, nullptr)) return 1;
  double worst = 0;
  for (long t = 0; t < T; ++t) {
    double total = 0;
    std::vector<double> exact(D);
    for (long s = 0; s < S; ++s) {
      double score = 0;
      for (long d = 0; d < D; ++d) score += double(q[t * D + d]) * k[s * D + d] * p.scale;
      total += std::exp(score);
      for (long d = 0; d < D; ++d) exact[d] += std::exp(score) * v[s * D + d];
    }
    for (long d = 0; d < D; ++d) worst = std::fmax(worst, std::fabs(output[t * D + d] - exact[d] / total));
    worst = std::fmax(worst, std::fabs(lse[t] - std::log(total)));
  }
  return worst;
}

}  // namespace

int main() {
  bool before = flushes(), inside[2] = {true, true};
  overt::Call call(nullptr);
  overt::work_together(overt::hire(2), [](const void* found, int thread) {
    static_cast<bool*>(const_cast<void*>(found))[thread] = flushes();
    overt::wait_for_others();
  }, inside);
  double worst = 0;
  for (long T : {1, 5, 70})
    for (long S : {1, 33, 300})
      for (long D : {1, 24, 64}) worst = std::fmax(worst, error(T, S, D));
  std::printf("flushes before %d, inside %d %d, after %d; error %g\n", before, inside[0], inside[1], flushes(), worst);
  return before || !inside[0] || !inside[1] || flushes() || !(worst < 2e-6);
}
