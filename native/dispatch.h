// The levels of this machine.
#pragma once
#include "problem.h"

namespace overt {

struct Level {
  const char* name;
  Kernels kernels;
  int rank;
};

// Something that a CPU may know, by the compilers' name, and needs to know from a rank on.
struct Feature {
  const char* name;
  int rank;
  unsigned leaf, subleaf;  // of cpuid
  int word, bit;
};

// Ended by a feature without a name.
extern const Feature kFeatures[];

// Whether this machine runs a level.
bool supported(const Level& level);

// Best first, ended by a level without a name.
extern const Level kLevels[];

// Null name: the best this machine runs.  Null result: there is none of that name.
const Level* level(const char* name);

}  // namespace overt
