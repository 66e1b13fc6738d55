// Rows of the input's type to what the kernels read: panels of keys, zero-padded rows of values, interleaved queries.
#pragma once
#include "lane.h"

namespace overt::OVERT_LEVEL {

struct Float16 { std::uint16_t bits; };
struct BFloat16 { std::uint16_t bits; };

template <class In> struct AccumulatorOf { using type = float; };
template <> struct AccumulatorOf<double> { using type = double; };
template <class In> using Accumulator = typename AccumulatorOf<In>::type;

// A kernel is compiled for an accumulator, and types of input share all its code but what reads inputs and writes outputs.
// Calls body.operator()<In>() with the type of the inputs of such a kernel.
template <class Acc, class Body> OVERT_INLINE auto with_input([[maybe_unused]] Type type, const Body& body) {
  if constexpr (sizeof(Acc) == 4) {
    if (type == Type::float16) return body.template operator()<Float16>();
    if (type == Type::bfloat16) return body.template operator()<BFloat16>();
  }
  return body.template operator()<Acc>();
}

typedef std::uint32_t Words __attribute__((vector_size(kBytes), may_alias));
typedef std::uint16_t Halves __attribute__((vector_size(kBytes / 2), aligned(2), may_alias));

// GCC makes four instructions of a conversion that is one.
OVERT_INLINE Words widened(Halves x) {
#if defined(__AVX512F__)
  return (Words)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)x);
#else
  return __builtin_convertvector(x, Words);
#endif
}

// Half numbers as they are stored, in single precision.
template <class In> Lane<float> single(Halves x);
template <> OVERT_INLINE Lane<float> single<BFloat16>(Halves x) { return (Lane<float>)(widened(x) << 16); }
template <> OVERT_INLINE Lane<float> single<Float16>(Halves x) {
#if defined(__AVX512F__)
  return (Lane<float>)_mm512_maskz_cvtph_ps(0xffff, (__m256i)x);
#elif defined(__F16C__)
  return (Lane<float>)_mm256_cvtph_ps((__m128i)x);
#else
  Words half = widened(x);
  Words size = (half & 0x7fff) << 13;
  // From bias 15 to bias 127.  Subnormal numbers count 2^-24, and float32 has them as normal ones; as they stand they
  // would be subnormal there too, and taken for 0.
  Words normal = size + (112 << 23), special = size | 0x7f800000;
  Words subnormal = (Words)(__builtin_convertvector((Vector<float>::Bits)(half & 0x7fff), Lane<float>) * 0x1p-24f);
  Words finite = size >= 1 << 23 ? normal : subnormal;
  return (Lane<float>)((size >= 0x0f800000 ? special : finite) | (half & 0x8000) << 16);
#endif
}

OVERT_INLINE Lane<float> load_lanes(const float* p) { return load(p); }
OVERT_INLINE Lane<double> load_lanes(const double* p) { return load(p); }
OVERT_INLINE Halves load_halves(const void* p) { return *static_cast<const Halves*>(p); }
template <class In> OVERT_INLINE Lane<float> load_lanes(const In* p) { return single<In>(load_halves(p)); }

// The first `count` elements, and zeros; reads nothing beyond them.  Where kMasks, that takes as long as all of them.
#if defined(__AVX512F__)
constexpr bool kMasks = true;
template <class In> OVERT_INLINE Lane<float> load_some(const In* p, Index count) {
  return single<In>((Halves)_mm256_maskz_loadu_epi16(count >= 16 ? 0xffff : (1u << count) - 1, p));
}
OVERT_INLINE Lane<float> load_some(const float* p, Index count) {
  return (Lane<float>)_mm512_maskz_loadu_ps(count >= 16 ? 0xffff : (1u << count) - 1, p);
}
OVERT_INLINE Lane<double> load_some(const double* p, Index count) {
  return (Lane<double>)_mm512_maskz_loadu_pd(count >= 8 ? 0xff : (1u << count) - 1, p);
}
#else
constexpr bool kMasks = false;
// One by one into a register: a vector would wait for what was written to memory number by number.
template <class In> OVERT_APART Lane<Accumulator<In>> load_few(const In* p, Index count) {
  constexpr int most = kLanes<Accumulator<In>> - 1;
  if constexpr (sizeof(In) == 2) {
    Halves some = {};
    OVERT_UNROLL
    for (int i = 0; i < most; ++i)
      if (i < count) some[i] = p[i].bits;
    return single<In>(some);
  } else {
    Lane<In> some = {};
    OVERT_UNROLL
    for (int i = 0; i < most; ++i)
      if (i < count) some[i] = p[i];
    return some;
  }
}
#if defined(__AVX2__)
OVERT_INLINE Lane<float> load_few(const float* p, Index count) {
  constexpr Vector<float>::Bits order = {0, 1, 2, 3, 4, 5, 6, 7};
  return (Lane<float>)_mm256_maskload_ps(p, (__m256i)(order < int(count)));
}
OVERT_INLINE Lane<double> load_few(const double* p, Index count) {
  constexpr Vector<double>::Bits order = {0, 1, 2, 3};
  return (Lane<double>)_mm256_maskload_pd(p, (__m256i)(order < count));
}
#endif
template <class In> OVERT_INLINE Lane<Accumulator<In>> load_some(const In* p, Index count) {
  if (count >= kLanes<Accumulator<In>>) [[likely]] return load_lanes(p);
  return load_few(p, count);
}
#endif

OVERT_INLINE void round_to(float* to, float x) { *to = x; }
OVERT_INLINE void round_to(double* to, double x) { *to = x; }
OVERT_INLINE void round_to(BFloat16* to, float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  std::uint32_t even = bits + 0x7fff + (bits >> 16 & 1);
  to->bits = std::uint16_t((x != x ? bits | 0x400000 : even) >> 16);
}
OVERT_INLINE void round_to(Float16* to, float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  std::uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  std::uint32_t even = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
  // Below 2^-14 the spacing is 2^-24, which is the spacing of float32 just above ½: let the addition round.
  float small;
  __builtin_memcpy(&small, &size, 4);
  small += 0.5f;
  std::uint32_t subnormal;
  __builtin_memcpy(&subnormal, &small, 4);
  std::uint32_t half = size > 0x7f800000    ? 0x7e00
                       : size >= 0x477ff000 ? 0x7c00
                       : size < 0x38800000  ? subnormal - 0x3f000000
                                            : even;
  to->bits = std::uint16_t(sign | half);
}

// A whole vector, rounded to the type of the output.
OVERT_INLINE void store_rounded(float* to, Lane<float> x) { store(to, x); }
OVERT_INLINE void store_rounded(double* to, Lane<double> x) { store(to, x); }
OVERT_INLINE void store_rounded(BFloat16* to, Lane<float> x) {
#if defined(__AVX512BF16__)
  // Subnormal numbers become 0.
  auto half = _mm512_cvtneps_pbh((__m512)x);
  __builtin_memcpy(to, &half, sizeof half);
#else
  Words bits = (Words)x, even = bits + 0x7fff + (bits >> 16 & 1);
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector((x != x ? bits | 0x400000 : even) >> 16, Halves);
#endif
}
OVERT_INLINE void store_rounded(Float16* to, Lane<float> x) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtps_ph(0xffff, (__m512)x, 0));
#elif defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph((__m256)x, 0));
#else
  for (int i = 0; i < kLanes<float>; ++i) round_to(to + i, x[i]);
#endif
}

// x becomes the columns [d, d + kLanes) of `count` rows, transposed, with zeros in the place of the missing ones;
// row(i) gives the i-th.  Fast for `most` rows or more.
template <class In, int most = kLanes<Accumulator<In>>, class Row>
OVERT_INLINE void load_transposed(Row row, Index count, Index d, Index D, Lane<Accumulator<In>>* x) {
  using Acc = Accumulator<In>;
  constexpr int lanes = kLanes<Acc>;
  if (count >= most && D - d >= lanes) {
    OVERT_UNROLL
    for (int i = 0; i < lanes; ++i) x[i] = i < most ? load_lanes(row(i) + d) : Lane<Acc>{};
  } else {
    OVERT_UNROLL
    for (int i = 0; i < lanes; ++i) x[i] = i < count ? load_some(row(i) + d, D - d) : Lane<Acc>{};
  }
  transpose<Acc>(x);
}

// Half a panel [D][kPanel] from up to kLanes rows, times a factor, zeros in the place of the missing ones; row(i) gives the
// i-th.  With `ahead`, fetches as many rows that follow.
template <class In, bool ahead, class Row>
OVERT_INLINE void pack_half_panel(Row row, Index count, Index D, Accumulator<In> factor, Accumulator<In>* out) {
  using Acc = Accumulator<In>;
  constexpr int lanes = kLanes<Acc>;
  auto take = [&](Index d, Index some, Index end) __attribute__((always_inline)) {
    Lane<Acc> x[lanes];
    for (int i = 0; ahead && i < lanes; ++i) __builtin_prefetch(row(lanes + i) + d);
    load_transposed<In>(row, some, d, end, x);
    OVERT_UNROLL
    for (int i = 0; i < lanes; ++i)
      if (d + i < end) store(out + (d + i) * kPanel<Acc>, x[i] * factor);
  };
  Index d = 0;
  // Nothing is called in between where nothing ends.
  if (!kMasks && count >= lanes)
    for (; d + lanes <= D; d += lanes) take(d, lanes, d + lanes);
  for (; d < D; d += lanes) take(d, count, D);
}

// One panel [D][kPanel] from up to kPanel keys, zeros in the place of the missing ones.
template <class In> void pack_panel(const In* keys, Index stride, Index count, Index D, Accumulator<In>* panel) {
  using Acc = Accumulator<In>;
  constexpr int lanes = kLanes<Acc>;
  for (int half = 0; half < kPanel<Acc>; half += lanes, keys += lanes * stride) {
    if (half >= count) {
      for (Index d = 0; d < D; ++d) store(panel + d * kPanel<Acc> + half, Lane<Acc>{});
      break;
    }
    // Decoding reads each key once, from memory, in an order that the hardware's prefetcher does not recognise.
    pack_half_panel<In, true>([&](int i) { return keys + i * stride; }, count - half, D, Acc(1), panel + half);
  }
}

// Rows of E elements to rows of `width` ≥ E, a multiple of kLanes, zeros in the difference: `step` apart, and each in
// pieces of kPanel columns that are `slice` apart.
template <class In>
void pack_rows(const In* rows, Index stride, Index count, Index E, Index width, Index step, Index slice,
               Accumulator<In>* out) {
  using Acc = Accumulator<In>;
  for (Index i = 0; i < count; ++i)
    for (Index e = 0; e < width; e += kLanes<Acc>)
      store(out + i * step + e / kPanel<Acc> * slice + e % kPanel<Acc>, load_some(rows + i * stride + e, E - e));
}

// Queries interleave as [D][kQueries], so that one step of the depth finds its kRows factors together.
template <class Acc> constexpr int kQueries = (kRows + kLanes<Acc> - 1) / kLanes<Acc> * kLanes<Acc>;

template <class In>
void pack_queries(const In* const* rows, int count, Index D, Accumulator<In> factor, Accumulator<In>* out) {
  using Acc = Accumulator<In>;
  constexpr int lanes = kLanes<Acc>;
  constexpr int most = smaller(lanes, kRows);
  for (int first = 0; first < kQueries<Acc>; first += lanes)
    for (Index d = 0; d < D; d += lanes) {
      Lane<Acc> x[lanes];
      load_transposed<In, most>([&](int i) { return rows[first + i]; }, count - first, d, D, x);
      OVERT_UNROLL
      for (int i = 0; i < lanes; ++i)
        if (d + i < D) store(out + (d + i) * kQueries<Acc> + first, x[i] * factor);
    }
}

}  // namespace overt::OVERT_LEVEL
