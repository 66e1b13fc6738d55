// The vector type of a level, in GCC and Clang vector extensions: one source for every instruction set.
// Everything here lives in the namespace of the level, and no std:: template is used (see problem.h).
#pragma once
#include "problem.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define OVERT_INLINE inline __attribute__((always_inline))
// Of what takes long enough for a call to cost nothing, and would otherwise be compiled at each of its places.
#define OVERT_APART inline __attribute__((noinline))
#if defined(__clang__)
#define OVERT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OVERT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace overt::OVERT_LEVEL {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

// Whether products are computed on tiles of bfloat16 (split.h).
#if defined(OVERT_TILES)
constexpr bool kTiled = true;
#else
constexpr bool kTiled = false;
#endif

// Rows of queries that one pass over the keys serves: two tiles, or what leaves each two vectors of accumulators in the
// registers.
#if defined(OVERT_TILES)
constexpr int kRows = 32;
#elif defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRows = 12;
#else
constexpr int kRows = 6;
#endif

template <int... I> struct Order {};
template <int N> struct Count;
template <> struct Count<2> { using Order = OVERT_LEVEL::Order<0, 1>; };
template <> struct Count<4> { using Order = OVERT_LEVEL::Order<0, 1, 2, 3>; };
template <> struct Count<8> { using Order = OVERT_LEVEL::Order<0, 1, 2, 3, 4, 5, 6, 7>; };
template <> struct Count<16> { using Order = OVERT_LEVEL::Order<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>; };

template <class Acc> struct Vector;
template <> struct Vector<float> {
  typedef float Lane __attribute__((vector_size(kBytes)));
  typedef float Unaligned __attribute__((vector_size(kBytes), aligned(4), may_alias));
  typedef std::int32_t Bits __attribute__((vector_size(kBytes)));
  typedef std::uint32_t Word;
  typedef Word Words __attribute__((vector_size(kBytes)));
};
template <> struct Vector<double> {
  typedef double Lane __attribute__((vector_size(kBytes)));
  typedef double Unaligned __attribute__((vector_size(kBytes), aligned(8), may_alias));
  typedef std::int64_t Bits __attribute__((vector_size(kBytes)));
  typedef std::uint64_t Word;
  typedef Word Words __attribute__((vector_size(kBytes)));
};
template <class Acc> using Lane = typename Vector<Acc>::Lane;
template <class Acc> constexpr int kLanes = kBytes / int(sizeof(Acc));

// Keys of one panel: two vectors side by side, as many as the accumulators of a row.
template <class Acc> constexpr int kPanel = 2 * kLanes<Acc>;

// Whether x · y + z is one instruction.
#if defined(__FMA__) || defined(__aarch64__)
constexpr bool kFuses = true;
#else
constexpr bool kFuses = false;
#endif

constexpr float kInfinity = __builtin_inff();
constexpr double kLog2e = 1.4426950408889634, kLn2 = 0.6931471805599453;

template <class T> constexpr OVERT_INLINE T smaller(T a, T b) { return b < a ? b : a; }
template <class T> OVERT_INLINE T larger(T a, T b) { return a < b ? b : a; }
OVERT_INLINE Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
OVERT_INLINE Index round_up(Index a, Index b) { return ceil_div(a, b) * b; }

template <class Acc> OVERT_INLINE Lane<Acc> load(const Acc* p) {
  return *reinterpret_cast<const typename Vector<Acc>::Unaligned*>(p);
}
template <class Acc> OVERT_INLINE void store(Acc* p, Lane<Acc> x) {
  *reinterpret_cast<typename Vector<Acc>::Unaligned*>(p) = x;
}
// Subtracting 0 changes no number, not even −0, so compilers drop it and a broadcast remains.
template <class Acc> OVERT_INLINE Lane<Acc> all(Acc x) { return x - Lane<Acc>{}; }

// 1 / x where both are normal numbers.
template <class Acc> OVERT_INLINE Lane<Acc> reciprocal(Lane<Acc> x) { return Acc(1) / x; }
#if defined(__AVX512F__) || defined(__AVX2__)
template <> OVERT_INLINE Lane<float> reciprocal<float>(Lane<float> x) {
#if defined(__AVX512F__)
  Lane<float> guess = (Lane<float>)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
#else
  Lane<float> guess = (Lane<float>)_mm256_rcp_ps((__m256)x);
#endif
  // One step of Newton's doubles the bits that are right, which are 14 or 12.
  return guess + guess * (1.0f - x * guess);
}
#endif

// The larger of two.  Where one is NaN it is b, so a constant belongs in a.
template <class Lane> OVERT_INLINE Lane maximum(Lane a, Lane b) { return a > b ? a : b; }
// GCC makes a comparison and a selection of what is one instruction.
#if defined(__AVX512F__)
OVERT_INLINE Lane<float> maximum(Lane<float> a, Lane<float> b) {
  return (Lane<float>)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
}
OVERT_INLINE Lane<double> maximum(Lane<double> a, Lane<double> b) {
  return (Lane<double>)_mm512_maskz_max_pd(0xff, (__m512d)a, (__m512d)b);
}
#elif defined(__AVX2__)
OVERT_INLINE Lane<float> maximum(Lane<float> a, Lane<float> b) { return (Lane<float>)_mm256_max_ps((__m256)a, (__m256)b); }
OVERT_INLINE Lane<double> maximum(Lane<double> a, Lane<double> b) {
  return (Lane<double>)_mm256_max_pd((__m256d)a, (__m256d)b);
}
#endif

// A sum that will lose all its weight is 0, whatever it was.
template <class Lane> OVERT_INLINE Lane weighty(Lane sum, Lane shrink) { return shrink == 0 ? Lane{} : sum; }

template <int W, class Lane, int... I> OVERT_INLINE Lane swapped(Lane x, Order<I...>) {
  return __builtin_shufflevector(x, x, (I ^ W)...);
}
template <class Acc, int W = kLanes<Acc> / 2> OVERT_INLINE Acc sum(Lane<Acc> x) {
  x += swapped<W>(x, typename Count<kLanes<Acc>>::Order{});
  if constexpr (W > 1) return sum<Acc, W / 2>(x);
  else return x[0];
}
template <class Acc, int W = kLanes<Acc> / 2> OVERT_INLINE Acc largest(Lane<Acc> x) {
  x = maximum(x, swapped<W>(x, typename Count<kLanes<Acc>>::Order{}));
  if constexpr (W > 1) return largest<Acc, W / 2>(x);
  else return x[0];
}

// One bit for each lane of x that exceeds the threshold.
template <class Acc, int... I> OVERT_INLINE unsigned above(Lane<Acc> x, Acc threshold, Order<I...>) {
  using Bits = typename Vector<Acc>::Bits;
  Bits found = (x > threshold) & Bits{(1 << I)...};
  unsigned bits = 0;
  OVERT_UNROLL
  for (int i = 0; i < kLanes<Acc>; ++i) bits |= unsigned(found[i]);
  return bits;
}
template <class Acc> OVERT_INLINE unsigned above(Lane<Acc> x, Acc threshold) {
#if defined(__AVX512F__)
  if constexpr (sizeof(Acc) == 4) return _mm512_cmp_ps_mask((__m512)x, (__m512)all(threshold), _CMP_GT_OQ);
  else return _mm512_cmp_pd_mask((__m512d)x, (__m512d)all(threshold), _CMP_GT_OQ);
#elif defined(__AVX2__)
  if constexpr (sizeof(Acc) == 4) return _mm256_movemask_ps((__m256)(x > threshold));
  else return _mm256_movemask_pd((__m256d)(x > threshold));
#else
  return above<Acc>(x, threshold, typename Count<kLanes<Acc>>::Order{});
#endif
}

template <int W, class Lane, int... I> OVERT_INLINE Lane even_runs(Lane a, Lane b, Order<I...>) {
  return __builtin_shufflevector(a, b, ((I & W) ? int(sizeof...(I)) + I - W : I)...);
}
template <int W, class Lane, int... I> OVERT_INLINE Lane odd_runs(Lane a, Lane b, Order<I...>) {
  return __builtin_shufflevector(a, b, ((I & W) ? int(sizeof...(I)) + I : I + W)...);
}
// Transposes a square of kLanes vectors: exchange blocks of 1, 2, 4 … across the diagonal.
template <class Acc, int W = 1> OVERT_INLINE void transpose(Lane<Acc>* x) {
  using All = typename Count<kLanes<Acc>>::Order;
  OVERT_UNROLL
  for (int i = 0; i < kLanes<Acc>; ++i)
    if (!(i & W)) {
      Lane<Acc> a = x[i], b = x[i + W];
      x[i] = even_runs<W>(a, b, All{});
      x[i + W] = odd_runs<W>(a, b, All{});
    }
  if constexpr (2 * W < kLanes<Acc>) transpose<Acc, 2 * W>(x);
}

// 2^f − 1 for |f| ≤ ½ by a polynomial without a constant term, so that 2^0 is exactly 1 and a key block that changes no
// maximum rescales by exactly 1.  Minimax for the relative error: 9e-8, 1e-8 (precise) and 5e-18.
template <bool precise> OVERT_INLINE Lane<float> exp2_minus_one(Lane<float> f) {
  if constexpr (precise) {
    Lane<float> p = all(1.54034949959294129e-04f);
    p = p * f + 1.33907354116180931e-03f;
    p = p * f + 9.61823754909735662e-03f;
    p = p * f + 5.55035743380111291e-02f;
    p = p * f + 2.40226497946223375e-01f;
    p = p * f + 6.93147187926640528e-01f;
    return p * f;
  } else {
    Lane<float> p = all(1.32647220461801542e-03f);
    p = p * f + 9.67151299704055141e-03f;
    p = p * f + 5.55073376039080282e-02f;
    p = p * f + 2.40222420775837983e-01f;
    p = p * f + 6.93146977587212707e-01f;
    return p * f;
  }
}
template <bool precise> OVERT_INLINE Lane<double> exp2_minus_one(Lane<double> f) {
  Lane<double> p = all(4.42957495382129398e-10);
  p = p * f + 7.0744461353380886e-09;
  p = p * f + 1.01782410985413414e-07;
  p = p * f + 1.32154311447173065e-06;
  p = p * f + 1.52527333711727339e-05;
  p = p * f + 1.54035304661062935e-04;
  p = p * f + 1.33335581469331434e-03;
  p = p * f + 9.61812910758628243e-03;
  p = p * f + 5.55041086648192339e-02;
  p = p * f + 2.40226506959101531e-01;
  p = p * f + 6.93147180559945338e-01;
  return p * f;
}

// Adding `magic` rounds to the nearest integer and leaves that integer, and the bias of exponents, in the low bits.
template <class Acc> struct Exponent;
template <> struct Exponent<float> {
  static constexpr float magic = 12582912.0f + 127, lowest = -127.0f;
  static constexpr int shift = 23;
};
template <> struct Exponent<double> {
  static constexpr double magic = 6755399441055744.0 + 1023, lowest = -1023.0;
  static constexpr int shift = 52;
};

// 2^n from n + magic; 0 where n is `lowest`.  Unsigned, because lanes that nobody reads may hold anything.
template <class Acc> OVERT_INLINE Lane<Acc> power(Lane<Acc> shifted) {
  using Words = typename Vector<Acc>::Words;
  return (Lane<Acc>)((Words)shifted << typename Vector<Acc>::Word(Exponent<Acc>::shift));
}

// 2^x for x up to 126: exactly 1 at 0, exactly 0 at −inf and where the result would be subnormal or less, NaN at NaN.
template <class Acc> OVERT_INLINE Lane<Acc> exp2(Lane<Acc> x) {
  using E = Exponent<Acc>;
  x = maximum(all(E::lowest), x);
  Lane<Acc> shifted = x + E::magic;
  Lane<Acc> scale = power<Acc>(shifted);
  return scale + scale * exp2_minus_one<false>(x - (shifted - E::magic));
}

#if defined(__AVX512DQ__)
// vreduce gives x − floor(x), vscalef multiplies by 2^floor(x): two instructions for the range reduction and its undoing.
// (The forms without a mask make GCC warn inside its own header.)
OVERT_INLINE Lane<float> less_floor(Lane<float> x) { return (Lane<float>)_mm512_maskz_reduce_ps(0xffff, (__m512)x, 0x09); }
OVERT_INLINE Lane<float> times_power(Lane<float> p, Lane<float> x) {
  return (Lane<float>)_mm512_maskz_scalef_ps(0xffff, (__m512)p, (__m512)x);
}
template <> OVERT_INLINE Lane<float> exp2<float>(Lane<float> x) {
  Lane<float> f = less_floor(x), p = all(1.86713098017454224e-03f);
  p = p * f + 9.01702778457146608e-03f;
  p = p * f + 5.57999156085946714e-02f;
  p = p * f + 2.40164449140704035e-01f;
  p = p * f + 6.93151311941447409e-01f;
  p = p * f + 1.0f;
  return times_power(p, x);
}
// The same for what will be rounded to eight bits: the relative error is 3e-6 at most, where it is 2e-7 above.
OVERT_INLINE Lane<float> exp2_coarsely(Lane<float> x) {
  Lane<float> f = less_floor(x), p = all(1.34266847744584084e-02f);
  p = p * f + 5.22424727678298950e-02f;
  p = p * f + 2.41280198097229004e-01f;
  p = p * f + 6.93044841289520264e-01f;
  p = p * f + 1.0f;
  return times_power(p, x);
}
#endif

// e^x, of the same range and with the same exact values.
template <class Acc> OVERT_INLINE Lane<Acc> exp(Lane<Acc> x) { return exp2<Acc>(x * Acc(kLog2e)); }

// tanh through e^{2x} − 1, which keeps its relative precision near 0.
template <class Acc> OVERT_INLINE Lane<Acc> tanh(Lane<Acc> x) {
  using E = Exponent<Acc>;
  const Acc far = sizeof(Acc) == 4 ? 10 : 20;
  x = maximum(all(-far), x);
  x = x > far ? all(far) : x;
  Lane<Acc> y = x * Acc(2 * kLog2e);
  Lane<Acc> shifted = y + E::magic;
  Lane<Acc> scale = power<Acc>(shifted);
  Lane<Acc> less_one = (scale - Acc(1)) + scale * exp2_minus_one<true>(y - (shifted - E::magic));
  return less_one / (less_one + Acc(2));
}

}  // namespace overt::OVERT_LEVEL
