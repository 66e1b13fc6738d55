// The score that is no dot product: Σ v tanh(q + k), never as an array of T × S × D.
//
// With r = 1 / (1 + e^{2(q + k)}),  tanh = 1 − 2r  and  tanh' = 4 (r − r²).
// Where q and k are bounded, e^{2q} and e^{2k} are computed once each and a cell only multiplies them.
// Two terms share a reciprocal:  v₁/a + v₂/b = (v₁b + v₂a) / ab.
#pragma once
#include "pack.h"

namespace overt::OVERT_LEVEL {

// Packed q or k becomes e^{2x} if they are bounded.
template <class Acc> void raise(bool bounded, Acc* packed, Index count) {
  if (!bounded) return;
  for (Index i = 0; i < count; i += kLanes<Acc>) store(packed + i, exp2<Acc>(load(packed + i) * Acc(2 * kLog2e)));
}

// Packed NaN become 0: where one can be seen, the weights are NaN already and say so.  Infinities become large, so that
// a difference of two is a number where nobody sees it.
template <class Acc> void make_finite(Acc* packed, Index count) {
  const Acc large = Acc(1e30);
  for (Index i = 0; i < count; i += kLanes<Acc>) {
    Lane<Acc> x = load(packed + i);
    x = x == x ? x : Lane<Acc>{};
    x = x > large ? all(large) : x;
    store(packed + i, x < -large ? all(-large) : x);
  }
}

// 1 + e^{2(q + k)} from packed q and k; beyond 2^60 it makes no difference, and two of them may be multiplied.
template <class Acc, bool bounded> OVERT_INLINE Lane<Acc> one_more(Lane<Acc> q, Lane<Acc> k) {
  if constexpr (bounded) return q * k + Acc(1);
  Lane<Acc> x = (q + k) * Acc(2 * kLog2e);
  // A NaN stays.
  return exp2<Acc>(x > Acc(60) ? all(Acc(60)) : x) + Acc(1);
}

// Scores of M rows, packed [D][kQueries], with `panels` consecutive panels [D][kPanel]:  base + slope · Σ v r.
template <class Acc, int M, bool bounded>
void add_terms(const Acc* rows, const Acc* panel, const Acc* v, Index D, int panels, Acc base, Acc slope, Acc* tile,
               Index stride) {
  constexpr int lanes = kLanes<Acc>;
  for (int half = 0; half < 2 * panels; ++half) {
    Lane<Acc> sums[M] = {};
    Index d = 0;
    for (; d + 1 < D; d += 2) {
      Lane<Acc> first = load(panel + d * kPanel<Acc>), second = load(panel + (d + 1) * kPanel<Acc>);
      Lane<Acc> v1 = all(v[d]), v2 = all(v[d + 1]);
      const Acc* row = rows + d * kQueries<Acc>;
      OVERT_UNROLL
      for (int r = 0; r < M; ++r) {
        Lane<Acc> a = one_more<Acc, bounded>(all(row[r]), first);
        Lane<Acc> b = one_more<Acc, bounded>(all(row[kQueries<Acc> + r]), second);
        sums[r] += (v1 * b + v2 * a) * reciprocal<Acc>(a * b);
      }
    }
    if (d < D) {
      OVERT_UNROLL
      for (int r = 0; r < M; ++r) {
        Lane<Acc> a = one_more<Acc, bounded>(all(rows[d * kQueries<Acc> + r]), load(panel + d * kPanel<Acc>));
        sums[r] += v[d] * reciprocal<Acc>(a);
      }
    }
    OVERT_UNROLL
    for (int r = 0; r < M; ++r) store(tile + r * stride + half * lanes, base + slope * sums[r]);
    panel += half % 2 ? D * kPanel<Acc> - lanes : lanes;
  }
}

// The same by tanh itself, at several times the cost: of 1 − 2r there is less than of v where tanh is small, and terms that
// share a reciprocal may overflow.
template <class Acc>
OVERT_APART void add_steep_terms(int M, const Acc* rows, const Acc* panel, const Acc* v, Index D, int panels, Acc scale, Acc* tile,
                                 Index stride) {
  constexpr int lanes = kLanes<Acc>;
  for (int r = 0; r < M; ++r)
    for (int half = 0; half < 2 * panels; ++half) {
      const Acc* keys = panel + half / 2 * D * kPanel<Acc> + half % 2 * lanes;
      Lane<Acc> sum = {};
      for (Index d = 0; d < D; ++d) sum += v[d] * tanh<Acc>(rows[d * kQueries<Acc> + r] + load(keys + d * kPanel<Acc>));
      store(tile + r * stride + half * lanes, scale * sum);
    }
}

// The way back.  `pulls` holds the gradients of the scores, one row for each of the M rows, columns as in the panels.
// For one feature: adds Σ ds (r − r²) along a row to across[r · wide] and along a column to down[column], and returns
// Σ ds r.
template <class Acc, int M, bool bounded>
OVERT_INLINE Acc pull_feature(const Acc* row, const Acc* panel, Index D, int width, const Acc* pulls, Index stride,
                              Acc* across, Index wide, Acc* down) {
  constexpr int lanes = kLanes<Acc>;
  Lane<Acc> sums[M] = {}, total = {};
  for (int i = 0; i < width; i += lanes) {
    Lane<Acc> x = load(panel + i / kPanel<Acc> * D * kPanel<Acc> + i % kPanel<Acc>), column = load(down + i);
    auto take = [&](int r, Lane<Acc> inverse) __attribute__((always_inline)) {
      Lane<Acc> ds = load(pulls + r * stride + i), bend = ds * (inverse - inverse * inverse);
      sums[r] += bend;
      column += bend;
      total += ds * inverse;
    };
    if constexpr (M == 1) {
      take(0, reciprocal<Acc>(one_more<Acc, bounded>(all(row[0]), x)));
    } else {
      OVERT_UNROLL
      for (int r = 0; r < M; r += 2) {
        Lane<Acc> a = one_more<Acc, bounded>(all(row[r]), x), b = one_more<Acc, bounded>(all(row[r + 1]), x);
        Lane<Acc> both = reciprocal<Acc>(a * b);
        take(r, both * b);
        take(r + 1, both * a);
      }
    }
    store(down + i, column);
  }
  OVERT_UNROLL
  for (int r = 0; r < M; ++r) across[r * wide] += sum<Acc>(sums[r]);
  return sum<Acc>(total);
}
// The same by tanh itself: r − r² is (1 − tanh²) / 4, and what is returned is Σ ds tanh.
template <class Acc>
OVERT_APART Acc pull_steep_feature(int M, const Acc* row, const Acc* panel, Index D, int width, const Acc* pulls, Index stride,
                                   Acc* across, Index wide, Acc* down) {
  Lane<Acc> total = {};
  for (int r = 0; r < M; ++r) {
    Lane<Acc> bends = {};
    for (int i = 0; i < width; i += kLanes<Acc>) {
      Lane<Acc> y = tanh<Acc>(row[r] + load(panel + i / kPanel<Acc> * D * kPanel<Acc> + i % kPanel<Acc>));
      Lane<Acc> ds = load(pulls + r * stride + i), bend = ds * (1 - y) * (1 + y) * Acc(0.25);
      bends += bend;
      store(down + i, load(down + i) + bend);
      total += ds * y;
    }
    across[r * wide] += sum<Acc>(bends);
  }
  return sum<Acc>(total);
}

}  // namespace overt::OVERT_LEVEL
