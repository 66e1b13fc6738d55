// Chooses the level.  The only file that knows which there are.
#include "dispatch.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(OVERT_WITH_amx) && !defined(OVERT_EMULATE_TILES)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace overt {

#define OVERT_DECLARE(name)                                                                                       \
  namespace name {                                                                                                \
  bool forward(const Problem&, const Run&, void* output, const LogSum*, Along*);                                  \
  bool backward(const Problem&, const Run&, const Pull&);                                                         \
  bool statistics(const Problem&, const Run&, const LogSum&, void* received, void* entropy, const Picks*);        \
  bool top(const Problem&, const Run&, const LogSum&, Index count, std::int64_t* indices, void* weights);         \
  bool map(const Problem&, const Run&, const LogSum&, const Bins&, void* out);                                    \
  bool weights(const Problem&, const Run&, const LogSum&, void* out);                                             \
  }
#define OVERT_KERNELS(name) {name::forward, name::backward, name::statistics, name::top, name::map, name::weights}

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

enum Rank { kV2 = 2, kV3, kV4, kAmx };

// All that the compiler may use at a level and those below it, and not only what the kernels ask for.  Asked of the CPU
// itself, since GCC and Clang know different names for it.
const Feature kFeatures[] = {
    {"cx16", kV2, 1, 0, 2, 13},
    {"lahf_sahf", kV2, 0x80000001, 0, 2, 0},
    {"popcnt", kV2, 1, 0, 2, 23},
    {"sse3", kV2, 1, 0, 2, 0},
    {"sse4_1", kV2, 1, 0, 2, 19},
    {"sse4_2", kV2, 1, 0, 2, 20},
    {"ssse3", kV2, 1, 0, 2, 9},
    {"avx", kV3, 1, 0, 2, 28},
    {"avx2", kV3, 7, 0, 1, 5},
    {"bmi", kV3, 7, 0, 1, 3},
    {"bmi2", kV3, 7, 0, 1, 8},
    {"f16c", kV3, 1, 0, 2, 29},
    {"fma", kV3, 1, 0, 2, 12},
    {"lzcnt", kV3, 0x80000001, 0, 2, 5},
    {"movbe", kV3, 1, 0, 2, 22},
    // As the kernel has it switched on.
    {"xsave", kV3, 1, 0, 2, 27},
    {"avx512bw", kV4, 7, 0, 1, 30},
    {"avx512cd", kV4, 7, 0, 1, 28},
    {"avx512dq", kV4, 7, 0, 1, 17},
    {"avx512f", kV4, 7, 0, 1, 16},
    {"avx512vl", kV4, 7, 0, 1, 31},
    {"avx512bf16", kAmx, 7, 1, 0, 5},
#ifndef OVERT_EMULATE_TILES
    {"amx_bf16", kAmx, 7, 0, 3, 22},
    {"amx_tile", kAmx, 7, 0, 3, 24},
#endif
    {},
};

static bool has(const Feature& feature) {
  unsigned words[4];
  return __get_cpuid_count(feature.leaf, feature.subleaf, &words[0], &words[1], &words[2], &words[3]) &&
         words[feature.word] >> feature.bit & 1;
}

// The registers that the kernel saves when it switches threads.
static unsigned saved_registers() {
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

static bool find(int rank) {
  for (const Feature* feature = kFeatures; feature->name; ++feature)
    if (feature->rank <= rank && !has(*feature)) return false;
  unsigned registers = rank >= kV4 ? 0xe6 : rank >= kV3 ? 0x6 : 0;
#ifndef OVERT_EMULATE_TILES
  if (rank >= kAmx) registers |= 0x60000;
#endif
  if (registers && (saved_registers() & registers) != registers) return false;
#if defined(OVERT_WITH_amx) && !defined(OVERT_EMULATE_TILES)
  // A process must ask for tiles.
  constexpr long request = 0x1023, tile_data = 18;
  if (rank >= kAmx && syscall(SYS_arch_prctl, request, tile_data)) return false;
#endif
  return true;
}

// Asking takes some ten microseconds where there is a hypervisor, and the answer must not change between two calls.
bool supported(const Level& level) {
  static const bool found[] = {find(kV2), find(kV3), find(kV4), find(kAmx)};
  return found[level.rank - kV2];
}

#ifdef OVERT_WITH_amx
OVERT_DECLARE(amx)

// Tiles do not compute everything, few rows that share their keys would leave most of a tile empty, and a scale that makes
// something of products near the smallest number wants all their bits: that is v4's.
static bool can_tile(const Problem& p) {
  return p.type != Type::float64 && !p.additive && p.whole_rows >= 16 && __builtin_fabs(p.scale) < kWildScale &&
         (p.softcap == 0 || __builtin_fabs(p.scale) < kWildScale * p.softcap);
}
// Nor does little work pay for what tiles ask for, the less so the more terms a number is split into.
// One rule for all, and for all parts of a whole, so that weights are those of the lse that they are told.
static bool tiles_pay(const Problem& p) {
  if (p.type == Type::bfloat16) return can_tile(p);
  return can_tile(p) && p.whole_keys >= 32 && (p.type == Type::float16 || p.whole_rows >= 64);
}
#define OVERT_WHERE(rule, name) [](const Problem& p, auto... rest) { return (rule(p) ? amx::name : v4::name)(p, rest...); }
#define OVERT_TILES_WHERE(rule)                                                                              \
  {                                                                                                          \
    OVERT_WHERE(rule, forward), v4::backward, OVERT_WHERE(rule, statistics), OVERT_WHERE(rule, top),         \
        OVERT_WHERE(rule, map), OVERT_WHERE(rule, weights)                                                   \
  }
#endif

const Level kLevels[] = {
#ifdef OVERT_WITH_amx
    {"amx", OVERT_TILES_WHERE(tiles_pay), kAmx},
#endif
#ifdef OVERT_WITH_v4
    {"v4", OVERT_KERNELS(v4), kV4},
#endif
#ifdef OVERT_WITH_v3
    {"v3", OVERT_KERNELS(v3), kV3},
#endif
#ifdef OVERT_WITH_v2
    {"v2", OVERT_KERNELS(v2), kV2},
#endif
    {},
};
#else
OVERT_DECLARE(base)

const Feature kFeatures[] = {{}};
bool supported(const Level&) { return true; }

const Level kLevels[] = {
    {"base", OVERT_KERNELS(base), 0},
    {},
};
#endif

const Level* level(const char* name) {
#ifdef OVERT_WITH_amx
  // Who asks for tiles by name gets them.
  static const Level tiles = {"amx", OVERT_TILES_WHERE(can_tile), kAmx};
  if (name && !std::strcmp(name, tiles.name)) return supported(tiles) ? &tiles : nullptr;
#endif
  for (const Level* l = kLevels; l->name; ++l)
    if ((!name || !std::strcmp(name, l->name)) && supported(*l)) return l;
  return nullptr;
}

}  // namespace overt
