// Chooses the level.  The only file that knows which there are.
#include "dispatch.h"

#include <cstring>

#if defined(OVERT_WITH_amx) && !defined(OVERT_EMULATE_TILES)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace overt {

#define OVERT_DECLARE(name)                                                                                       \
  namespace name {                                                                                                \
  bool forward(const Problem&, const Run&, void* output, void* lse, Along*);                                      \
  bool backward(const Problem&, const Run&, const Pull&);                                                         \
  bool statistics(const Problem&, const Run&, const void* lse, void* received, void* entropy);                    \
  bool top(const Problem&, const Run&, const void* lse, Index count, std::int64_t* indices, void* weights);       \
  bool map(const Problem&, const Run&, const void* lse, const Bins&, void* out);                                  \
  bool weights(const Problem&, const Run&, const void* lse, void* out);                                           \
  }
#define OVERT_KERNELS(name) {name::forward, name::backward, name::statistics, name::top, name::map, name::weights}

// Spelled as features: GCC 11 and Clang before 18 do not know "x86-64-v3" here.
#define OVERT_HAS(feature) bool(__builtin_cpu_supports(#feature))

#if defined(__x86_64__)
// A build may leave levels out (OVERT_LEVELS in CMakeLists.txt).
#ifdef OVERT_WITH_v2
OVERT_DECLARE(v2)
#endif
#ifdef OVERT_WITH_v3
OVERT_DECLARE(v3)
#endif
#ifdef OVERT_WITH_v4
OVERT_DECLARE(v4)
#endif

static bool has_v4() {
  return OVERT_HAS(avx512f) && OVERT_HAS(avx512bw) && OVERT_HAS(avx512cd) && OVERT_HAS(avx512dq) && OVERT_HAS(avx512vl) &&
         OVERT_HAS(avx2) && OVERT_HAS(fma) && OVERT_HAS(bmi2);
}

#ifdef OVERT_WITH_amx
OVERT_DECLARE(amx)

// Tiles do not compute everything, and few rows that share their keys would leave most of a tile empty: that is v4's.
static bool can_tile(const Problem& p) { return p.type != Type::float64 && !p.additive && p.H / p.G * p.T >= 16; }
// Nor does little work pay for what tiles ask for, the less so the more terms a number is split into.
// One rule for all, so that weights are those of the lse that they are told.
static bool tiles_pay(const Problem& p) {
  if (p.type == Type::bfloat16) return can_tile(p);
  return can_tile(p) && p.S >= 32 && (p.type == Type::float16 || p.H / p.G * p.T >= 64);
}
#define OVERT_WHERE(rule, name) [](const Problem& p, auto... rest) { return (rule(p) ? amx::name : v4::name)(p, rest...); }
#define OVERT_TILES_WHERE(rule)                                                                              \
  {                                                                                                          \
    OVERT_WHERE(rule, forward), v4::backward, OVERT_WHERE(rule, statistics), OVERT_WHERE(rule, top),         \
        OVERT_WHERE(rule, map), OVERT_WHERE(rule, weights)                                                   \
  }

static bool find_amx() {
  if (!has_v4() || !OVERT_HAS(avx512bf16)) return false;
#ifdef OVERT_EMULATE_TILES
  return true;
#else
  // The CPU has tiles of bfloat16, and the kernel saves them: a process must ask for that.
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return false;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr long request = 0x1023, tile_data = 18;
  return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, request, tile_data) == 0;
#endif
}

// Asking takes some ten microseconds where there is a hypervisor, and the answer must not change between two calls.
static bool has_amx() {
  static const bool found = find_amx();
  return found;
}
#endif

const Level kLevels[] = {
#ifdef OVERT_WITH_amx
    {"amx", OVERT_TILES_WHERE(tiles_pay), has_amx},
#endif
#ifdef OVERT_WITH_v4
    {"v4", OVERT_KERNELS(v4), has_v4},
#endif
#ifdef OVERT_WITH_v3
    {"v3", OVERT_KERNELS(v3), [] { return OVERT_HAS(avx2) && OVERT_HAS(fma) && OVERT_HAS(bmi) && OVERT_HAS(bmi2); }},
#endif
#ifdef OVERT_WITH_v2
    {"v2", OVERT_KERNELS(v2), [] { return OVERT_HAS(sse4.2) && OVERT_HAS(ssse3) && OVERT_HAS(popcnt); }},
#endif
    {},
};
#else
OVERT_DECLARE(base)

const Level kLevels[] = {
    {"base", OVERT_KERNELS(base), [] { return true; }},
    {},
};
#endif

const Level* level(const char* name) {
#ifdef OVERT_WITH_amx
  // Who asks for tiles by name gets them.
  static const Level tiles = {"amx", OVERT_TILES_WHERE(can_tile), has_amx};
  if (name && !std::strcmp(name, tiles.name)) return tiles.supported() ? &tiles : nullptr;
#endif
  for (const Level* l = kLevels; l->name; ++l)
    if ((!name || !std::strcmp(name, l->name)) && l->supported()) return l;
  return nullptr;
}

}  // namespace overt
