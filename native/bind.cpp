// The only file that knows Python: checks every array, then hands plain pointers to a kernel.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch.h"
#include "pool.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace overt {
namespace {

// Of a level; None is the best.
using Name = std::optional<const char*>;

std::atomic<bool> poison_scratch{false};

[[noreturn]] void reject(const std::string& message) { throw nb::value_error(message.c_str()); }

// The kinds of element, by the letters that the buffer protocol uses for them and the code of DLPack.
struct Element {
  const char* letters;
  char code;
  const char* name;
  Index size;
};
constexpr Element kFloat32 = {"f", 2, "float32", 4}, kFloat64 = {"d", 2, "float64", 8},
                  kFloat16 = {"H", 2, "uint16", 2}, kBfloat16 = {"H", 4, "uint16", 2},
                  kInt32 = {"il", 0, "int32", 4},
                  kInt64 = {"lq", 0, "int64", 8}, kBool = {"?", 6, "bool", 1};

// What DLPack's C exchange API (dlpack.h, version 1) lends of an array, in the layout of its ABI.
struct Lent {
  void* data;
  std::int32_t device, device_number, axes;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t *shape, *strides;
  std::uint64_t offset;
};
struct ExchangeApi {
  std::uint32_t major, minor;
  void *older, *allocate, *give, *take;
  int (*lend)(void* object, Lent* out);
};
constexpr int kCpu = 1;

// The exchange API of an object's type, such as torch's tensors; null where it has none that is known here.
const ExchangeApi* exchange_api(nb::handle object) {
  // The last type that was asked about, held so that its address stays its own.
  static nb::object* last = new nb::object;
  static const ExchangeApi* known = nullptr;
  nb::handle type = object.type();
  if (!last->is(type)) {
    nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
    void* found = PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")
                      ? PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api")
                      : nullptr;
    known = static_cast<const ExchangeApi*>(found);
    if (known && (known->major != 1 || !known->lend)) known = nullptr;
    *last = nb::borrow(type);
  }
  return known;
}

// An array lent by Python for as long as this object lives, seen through the buffer protocol or DLPack, which copy
// nothing and convert nothing.  What lacks the first of its axes has one element along it.
class Array {
 public:
  Array() = default;
  Array(nb::handle object, const char* name, Element element, int axes, bool output = false) : name_(name) {
    if (PyObject_CheckBuffer(object.ptr()))
      view_buffer(object, element, axes, output);
    else
      view_tensor(object, element, axes);
    check(element, axes, output);
  }
  Array(Array&& other) noexcept
      : buffer_(other.buffer_), held_(other.held_), tensor_(std::move(other.tensor_)), data_(other.data_),
        whole_(other.whole_), lacks_(other.lacks_), name_(other.name_) {
    std::copy_n(other.size_, kAxes, size_);
    std::copy_n(other.stride_, kAxes, stride_);
    other.held_ = false;
  }
  Array& operator=(Array&&) = delete;
  ~Array() {
    if (held_) PyBuffer_Release(&buffer_);
  }

  void* data() const { return data_; }
  Index size(int axis) const { return size_[axis]; }
  // Whether its first axis was left out.
  bool lacks_axis() const { return lacks_; }
  // In elements.  The stride of an axis of one element means nothing, whatever it says.
  Index stride(int axis) const { return size(axis) > 1 ? stride_[axis] : 0; }

  // As (batch, head, row, last).
  View view() const {
    if (size(3) > 1 && stride_[3] != 1) reject(text() + " must have unit stride on its last axis");
    return {data(), stride(0), stride(1), stride(2)};
  }
  void expect(std::initializer_list<Index> shape) const {
    int axis = 0;
    for (Index n : shape) {
      if (size(axis) != n)
        reject(text() + " has " + std::to_string(size(axis)) + " elements on axis " + std::to_string(axis) + ", not " +
               std::to_string(n));
      ++axis;
    }
  }

 private:
  static constexpr int kAxes = 4;

  std::string text() const { return name_; }

  void view_buffer(nb::handle object, Element element, int axes, bool output) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_FORMAT | PyBUF_STRIDES | (output ? PyBUF_WRITABLE : 0))) {
      PyErr_Clear();
      reject(text() + (output ? " must be a writable array" : " must be an array"));
    }
    held_ = true;
    try {
      const char* format = buffer_.format ? buffer_.format : "B";
      if (*format == '@' || *format == '=') ++format;
      if (!*format || format[1] || !std::strchr(element.letters, *format) || buffer_.itemsize != element.size)
        reject(text() + " must be " + element.name + " in native byte order");
      take(buffer_.buf, axes, buffer_.ndim, buffer_.shape, buffer_.strides, element.size);
    } catch (...) {
      PyBuffer_Release(&buffer_);
      throw;
    }
  }

  void view_tensor(nb::handle object, Element element, int axes) {
    const ExchangeApi* api = exchange_api(object);
    Lent lent;
    if (!api || api->lend(object.ptr(), &lent)) {
      PyErr_Clear();
      reject(text() + " must be an array");
    }
    tensor_ = nb::borrow(object);
    if (lent.device != kCpu) reject(text() + " must lie in the memory of the CPU");
    if (lent.code != element.code || lent.bits != 8 * element.size || lent.lanes != 1) reject(text() + " must be " + element.name);
    take(static_cast<char*>(lent.data) + lent.offset, axes, lent.axes, lent.shape, lent.strides, 1);
    // Memory may have been taken away from a tensor.
    bool empty = false;
    for (int axis = 0; axis < axes; ++axis) empty |= size(axis) == 0;
    if (!lent.data && !empty) reject(text() + " has no memory");
  }

  // Strides in units of so many to an element.
  template <class Size> void take(void* data, int axes, int given, const Size* shape, const Size* strides, Index unit) {
    if (given != axes && given != axes - 1)
      reject(text() + " must have " + std::to_string(axes) + " axes, not " + std::to_string(given));
    data_ = data;
    int missing = axes - given;
    lacks_ = missing;
    if (missing) size_[0] = 1, stride_[0] = 0;
    for (int axis = 0; axis < given; ++axis) {
      whole_ &= shape[axis] <= 1 || strides[axis] % unit == 0;
      size_[axis + missing] = shape[axis], stride_[axis + missing] = strides[axis] / unit;
    }
  }

  void check(Element element, int axes, bool output) const {
    Index packed = 1;
    bool contiguous = true, empty = false;
    for (int axis = axes - 1; axis >= 0; --axis) {
      empty |= size(axis) == 0;
      contiguous &= size(axis) <= 1 || stride_[axis] == packed;
      packed *= size(axis);
    }
    if (empty) return;
    if (!whole_ || reinterpret_cast<std::uintptr_t>(data_) % element.size) reject(text() + " must be aligned");
    if (output && !contiguous) reject(text() + " must be a C-contiguous array");
  }

  Py_buffer buffer_ = {};
  bool held_ = false;
  nb::object tensor_;
  void* data_ = nullptr;
  Index size_[kAxes] = {}, stride_[kAxes] = {};
  bool whole_ = true, lacks_ = false;
  const char* name_ = "";
};

Type type_of(const char* name) {
  if (!std::strcmp(name, "float32")) return Type::float32;
  if (!std::strcmp(name, "float64")) return Type::float64;
  if (!std::strcmp(name, "float16")) return Type::float16;
  if (!std::strcmp(name, "bfloat16")) return Type::bfloat16;
  reject("dtype must be float16, bfloat16, float32 or float64, not " + std::string(name));
}
Element element_of(Type type) {
  return type == Type::float32 ? kFloat32 : type == Type::float64 ? kFloat64 : type == Type::float16 ? kFloat16 : kBfloat16;
}

// A Problem and the arrays it points into.
struct HeldProblem : Problem {
  std::vector<Array> held;
  bool has_values;

  HeldProblem(const HeldProblem&) = delete;

  Element input() const { return element_of(type); }
  Element accumulator() const { return type == Type::float64 ? kFloat64 : kFloat32; }

  const Array& hold(nb::handle object, const char* name, Element element, int axes) {
    return held.emplace_back(object, name, element, axes);
  }

  HeldProblem(nb::object q_, nb::object k_, nb::object v_, const char* dtype, double scale_, double softcap_,
              nb::object first_, nb::object last_, nb::object bits_, nb::object bias_, nb::object sinks_,
              nb::object additive_, bool bounded_, double dropout_, std::uint64_t seed_, Index first_batch_,
              Index first_head_, Index first_query_, Index first_key_, Index whole_rows_, Index whole_keys_) {
    held.reserve(9);
    type = type_of(dtype);
    scale = scale_;
    softcap = softcap_;
    const Array& queries = hold(q_, "q", input(), 4);
    B = queries.size(0), H = queries.size(1), T = queries.size(2), D = queries.size(3);
    q = queries.view();
    const Array& keys = hold(k_, "k", input(), 4);
    G = keys.size(1), S = keys.size(2);
    keys.expect({B, G, S, D});
    k = keys.view();
    if (G == 0 ? H != 0 : H % G != 0)
      reject("q has " + std::to_string(H) + " heads, which is no multiple of the " + std::to_string(G) + " heads of k");
    if (std::max(T, S) > INT_MAX - 4096) reject("q or k has too many positions");
    E = 0;
    has_values = !v_.is_none();
    if (has_values) {
      const Array& values = hold(v_, "v", input(), 4);
      E = values.size(3);
      values.expect({B, G, S, E});
      v = values.view();
    }
    first = span(first_, "first");
    last = span(last_, "last");
    bits = cells(bits_, "bits", kBool, S);
    // One number a row will do.
    even_bias = S > 1 && !bias_.is_none() && Array(bias_, "bias", accumulator(), 4).size(3) == 1;
    bias = cells(bias_, "bias", accumulator(), even_bias ? 1 : S);
    sinks = vector(sinks_, "sinks", H);
    additive = vector(additive_, "additive", D);
    steep = type == Type::float64 ? is_steep<double>(0x1p39) : is_steep<float>(0x1p10);
    bounded = bounded_ && !steep;
    if (!(dropout_ >= 0 && dropout_ < 1)) reject("dropout must be at least 0 and below 1");
    dropout = dropout_;
    seed = seed_;
    first_batch = first_batch_;
    first_head = first_head_;
    first_query = first_query_;
    first_key = first_key_;
    whole_rows = whole_rows_ ? whole_rows_ : G ? H / G * T : 0;
    whole_keys = whole_keys_ ? whole_keys_ : S;
  }

  // Whether the numbers of the additive score add up to more than that.
  template <class Acc> bool is_steep(double most) const {
    double total = 0;
    for (Index d = 0; additive && d < D; ++d) total += std::abs(static_cast<const Acc*>(additive)[d]);
    return total > most;
  }

  const void* vector(const nb::object& object, const char* name, Index size) {
    if (object.is_none()) return nullptr;
    const Array& array = hold(object, name, accumulator(), 1);
    array.expect({size});
    if (size > 1 && array.stride(0) != 1) reject(std::string(name) + " must have unit stride");
    return array.data();
  }

  View span(const nb::object& object, const char* name) {
    if (object.is_none()) return {};
    const Array& array = hold(object, name, kInt32, 3);
    array.expect({B, H, T});
    return array.view();
  }
  View cells(const nb::object& object, const char* name, Element element, Index width) {
    if (object.is_none()) return {};
    const Array& array = hold(object, name, element, 4);
    array.expect({B, H, T, width});
    return array.view();
  }
  Array rows(const nb::object& object, const char* name) const {
    Array array(object, name, accumulator(), 3, true);
    array.expect({B, H, T});
    return array;
  }
  // What each key receives and how spread out each query's attention is, either or neither.
  std::pair<Array, Array> statistics(const nb::object& received_, const nb::object& entropy_) const {
    Array received = received_.is_none() ? Array() : Array(received_, "received", accumulator(), 3, true);
    Array entropy = entropy_.is_none() ? Array() : Array(entropy_, "entropy", accumulator(), 3, true);
    if (received.data()) received.expect({B, H, S});
    if (entropy.data()) entropy.expect({B, H, T});
    return {std::move(received), std::move(entropy)};
  }
};

// The log-sum of each row, held.
struct HeldLogSum {
  Array value, rest;
  HeldLogSum(const HeldProblem& p, const nb::object& value_, const nb::object& rest_)
      : value(p.rows(value_, "lse")), rest(rest_.is_none() ? Array() : p.rows(rest_, "rest")) {}
  operator LogSum() const { return {value.data(), rest.data()}; }
};

// Lets Python handle signals, which it does on its main thread only.
Call::Pause ask_python() {
  using namespace std::chrono_literals;
  auto start = std::chrono::steady_clock::now();
  nb::gil_scoped_acquire held;
  if (PyErr_CheckSignals()) return Call::kStop;
  try {
    nb::module_ threading = nb::module_::import_("threading");
    if (!threading.attr("main_thread")().attr("ident").equal(threading.attr("get_ident")())) return Call::kNeverAgain;
  } catch (nb::python_error&) {
    return Call::kNeverAgain;
  }
  // Where other threads hold the lock for long, asking for it more often would take its time.
  std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  return std::clamp<std::chrono::nanoseconds>(10 * took, 10ms, 30ms).count();
}

// Calls of fewer products end within milliseconds on any machine; looking at a clock between their tasks is felt.
constexpr double kBrief = 1e7;

// Runs body(kernels, run) without the interpreter's lock.  Raises what a handler of a signal raised meanwhile.
template <class Body>
void compute(const HeldProblem& p, int threads, Name level_name, const Body& body, bool panels = false) {
  if (threads < 0) reject("threads must be 0 or more, not " + std::to_string(threads));
  const char* name = level_name.value_or(nullptr);
  const Level* chosen = level(name);
  if (!chosen) reject("this machine has no level " + std::string(name ? name : "at all"));
  // Every output has these axes.
  if (p.B * p.H == 0) return;
  Run run = {std::min(threads ? threads : default_threads(), most_threads()), poison_scratch, panels};
  bool enough_memory;
  const double products = double(p.B) * double(p.H) * double(p.T) * double(p.S) * double(p.D + p.E + 8);
  Call call(products < kBrief ? nullptr : ask_python);
  {
    nb::gil_scoped_release other_threads_may_run;
    enough_memory = body(chosen->kernels, run);
  }
  if (call.orphaned()) throw std::runtime_error("a process that was forked in the middle of a call cannot finish it");
  if (call.stopped()) throw nb::python_error();
  if (!enough_memory) throw std::bad_alloc();
}

// Rejects bins that are not whole intervals of [0, size).
void check_bins(const Array& bins, const char* name, Index size) {
  bins.expect({bins.size(0), 2});
  const std::int64_t* bin = static_cast<const std::int64_t*>(bins.data());
  for (Index i = 0; i < bins.size(0); ++i)
    if (bin[2 * i] < 0 || bin[2 * i] >= bin[2 * i + 1] || bin[2 * i + 1] > size)
      reject(std::string(name) + " must hold non-empty intervals [start, end) within 0 and " + std::to_string(size));
}

// The largest |lse| that is finite.
double largest(const HeldProblem& p, nb::object lse_) {
  Array lse = p.rows(lse_, "lse");
  auto find = [&]<class Acc>(const Acc* value) {
    Acc most = 0;
    for (Index i = 0; i < p.B * p.H * p.T; ++i) {
      Acc size = value[i] < 0 ? -value[i] : value[i];
      if (size > most && size <= std::numeric_limits<Acc>::max()) most = size;
    }
    return double(most);
  };
  return p.type == Type::float64 ? find(static_cast<const double*>(lse.data()))
                                 : find(static_cast<const float*>(lse.data()));
}

// Whether received and entropy were filled as well.
bool forward(const HeldProblem& p, nb::object output_, nb::object lse_, nb::object rest_, nb::object received_,
             nb::object entropy_, int threads, Name level, bool panels) {
  if (!p.has_values) reject("forward needs v");
  Array output(output_, "output", p.input(), 4, true);
  output.expect({p.B, p.H, p.T, p.E});
  std::optional<HeldLogSum> held;
  if (!lse_.is_none()) held.emplace(p, lse_, rest_);
  LogSum lse = held ? LogSum(*held) : LogSum{};
  auto statistics = p.statistics(received_, entropy_);
  Along along = {statistics.first.data(), statistics.second.data(), false};
  Along* wanted = along.received && along.entropy ? &along : nullptr;
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) {
    return kernels.forward(p, run, output.data(), held ? &lse : nullptr, wanted);
  }, panels);
  return along.found;
}

void backward(const HeldProblem& p, nb::object output_, nb::object lse_, nb::object rest_, nb::object dy_,
              nb::object dlse_, nb::object dq_, nb::object dk_, nb::object dv_, nb::object dbias_, nb::object dsinks_,
              nb::object dadditive_, int threads, Name level) {
  if (!p.has_values) reject("backward needs v");
  Array output(output_, "output", p.input(), 4), dy(dy_, "dy", p.input(), 4);
  HeldLogSum lse(p, lse_, rest_);
  Array dlse = dlse_.is_none() ? Array() : p.rows(dlse_, "dlse");
  for (const Array* array : {&output, &dy}) array->expect({p.B, p.H, p.T, p.E});
  auto wanted = [&](const nb::object& object, const char* name) {
    return object.is_none() ? Array() : Array(object, name, p.accumulator(), 4, true);
  };
  Array dq = wanted(dq_, "dq"), dk = wanted(dk_, "dk"), dv = wanted(dv_, "dv"), dbias = wanted(dbias_, "dbias");
  if (dq.data()) dq.expect({p.B, p.H, p.T, p.D});
  if (dk.data()) dk.expect({p.B, p.G, p.S, p.D});
  if (dv.data()) dv.expect({p.B, p.G, p.S, p.E});
  if (dbias.data()) dbias.expect({p.B, p.H, p.T, p.S});
  Array dsinks = dsinks_.is_none() ? Array() : Array(dsinks_, "dsinks", p.accumulator(), 1, true);
  if (dsinks.data()) dsinks.expect({p.H});
  if (dsinks.data() && !p.sinks) reject("dsinks asks for the gradient of sinks, and there are none");
  Array dadditive = dadditive_.is_none() ? Array() : Array(dadditive_, "dadditive", p.accumulator(), 1, true);
  if (dadditive.data()) dadditive.expect({p.D});
  if (p.D && !dadditive.data() != !p.additive) reject("dadditive belongs to the additive score, and to no other");
  Pull pull = {output.view(), dy.view(), lse,          dlse.data(),   dq.data(),
               dk.data(),     dv.data(), dbias.data(), dsinks.data(), dadditive.data()};
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) { return kernels.backward(p, run, pull); });
}

// Softmax(q kᵀ / √D) v of arrays that need no description.
struct Plain : HeldProblem {
  Plain(nb::object q, nb::object k, nb::object v, const char* dtype, std::optional<double> scale, nb::object first,
        nb::object last)
      : HeldProblem(q, k, v, dtype, scale.value_or(0), 0, first, last, nb::none(), nb::none(), nb::none(), nb::none(),
                    false, 0, 0, 0, 0, 0, 0, 0, 0) {
    if (B * H * T * D == 0 || !has_values) reject("there is nothing to compare");
    // Axes broadcast otherwise, and that is a longer story.
    if (held[0].lacks_axis() != held[1].lacks_axis() || held[0].lacks_axis() != held[2].lacks_axis())
      reject("q, k and v must have as many axes");
    if (!scale) this->scale = 1 / std::sqrt(double(D));
  }
};

void plain_forward(nb::object q, nb::object k, nb::object v, const char* dtype, std::optional<double> scale,
                   nb::object first, nb::object last, nb::object output, nb::object lse, int threads) {
  forward(Plain(q, k, v, dtype, scale, first, last), output, lse, nb::none(), nb::none(), nb::none(), threads, {}, false);
}

// Whether it was computed: not where an lse is beyond the limit.
bool plain_backward(nb::object q, nb::object k, nb::object v, const char* dtype, std::optional<double> scale,
                    nb::object first, nb::object last, nb::object output, nb::object lse, nb::object dy, nb::object dq,
                    nb::object dk, nb::object dv, double limit, int threads) {
  Plain p(q, k, v, dtype, scale, first, last);
  if (largest(p, lse) > limit) return false;
  backward(p, output, lse, nb::none(), dy, nb::none(), dq, dk, dv, nb::none(), nb::none(), nb::none(), threads, {});
  return true;
}

// Whether they were computed: not where an lse is beyond the limit.
bool statistics(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object received_, nb::object entropy_,
                nb::object keys_, nb::object found_, const std::vector<std::int64_t>& rows, nb::object output_,
                nb::object off_, double limit, int threads, Name level) {
  HeldLogSum lse(p, lse_, rest_);
  if (std::isfinite(limit) && largest(p, lse_) > limit) return false;
  auto wanted = p.statistics(received_, entropy_);
  std::optional<Array> keys, found, output, off;
  Picks picks = {};
  if (!keys_.is_none()) {
    keys.emplace(keys_, "keys", kInt32, 3);
    found.emplace(found_, "found", p.accumulator(), 4, true);
    keys->expect({keys->size(0), p.B, p.T});
    found->expect({keys->size(0), p.B, p.H, p.T});
    picks.keys = keys->size(0), picks.found = found->data();
    picks.key = {keys->data(), keys->stride(0), keys->stride(1), keys->stride(2)};
  }
  if (!rows.empty()) {
    if (!p.has_values) reject("rows are compared with an output, which needs v");
    output.emplace(output_, "output", p.input(), 4);
    off.emplace(off_, "off", p.accumulator(), 4, true);
    picks.rows = Index(rows.size()), picks.row = rows.data(), picks.output = output->view(), picks.off = off->data();
    output->expect({p.B, p.H, p.T, p.E});
    off->expect({p.B, p.H, picks.rows, 2});
  }
  const bool any = picks.keys || picks.rows;
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) {
    return kernels.statistics(p, run, lse, wanted.first.data(), wanted.second.data(), any ? &picks : nullptr);
  });
  return true;
}

void top(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object indices_, nb::object weights_, int threads,
         Name level) {
  HeldLogSum lse(p, lse_, rest_);
  Array indices(indices_, "indices", kInt64, 4, true), weights(weights_, "weights", p.accumulator(), 4, true);
  Index count = indices.size(3);
  if (count < 1 || count > p.S)
    reject("indices asks for " + std::to_string(count) + " of " + std::to_string(p.S) + " keys");
  indices.expect({p.B, p.H, p.T, count});
  weights.expect({p.B, p.H, p.T, count});
  compute(p, threads, level, [&](const Kernels& kernels, const Run& run) {
    return kernels.top(p, run, lse, count, static_cast<std::int64_t*>(indices.data()), weights.data());
  });
}

void map(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object row_bins_, nb::object col_bins_, nb::object out_,
         const char* pool, int threads, Name level) {
  HeldLogSum lse(p, lse_, rest_);
  Array rows(row_bins_, "row_bins", kInt64, 2, true), columns(col_bins_, "col_bins", kInt64, 2, true);
  check_bins(rows, "row_bins", p.T);
  check_bins(columns, "col_bins", p.S);
  Array out(out_, "out", p.accumulator(), 4, true);
  out.expect({p.B, p.H, rows.size(0), columns.size(0)});
  bool mean = !std::strcmp(pool, "mean");
  if (!mean && std::strcmp(pool, "max")) reject("pool must be max or mean, not " + std::string(pool));
  Bins bins = {static_cast<const std::int64_t*>(rows.data()), rows.size(0),
               static_cast<const std::int64_t*>(columns.data()), columns.size(0), mean};
  compute(p, threads, level,
          [&](const Kernels& kernels, const Run& run) { return kernels.map(p, run, lse, bins, out.data()); });
}

void weights(const HeldProblem& p, nb::object lse_, nb::object rest_, nb::object out_, int threads, Name level) {
  HeldLogSum lse(p, lse_, rest_);
  Array out(out_, "out", p.accumulator(), 4, true);
  out.expect({p.B, p.H, p.T, p.S});
  compute(p, threads, level,
          [&](const Kernels& kernels, const Run& run) { return kernels.weights(p, run, lse, out.data()); });
}

}  // namespace
}  // namespace overt

NB_MODULE(_native, m) {
  using namespace overt;
  nb::class_<HeldProblem>(m, "Problem")
      .def(nb::init<nb::object, nb::object, nb::object, const char*, double, double, nb::object, nb::object, nb::object,
                    nb::object, nb::object, nb::object, bool, double, std::uint64_t, Index, Index, Index, Index, Index,
                    Index>(),
           "q"_a, "k"_a, "v"_a.none(), nb::kw_only(), "dtype"_a = "float32", "scale"_a, "softcap"_a = 0.0,
           "first"_a = nb::none(), "last"_a = nb::none(), "bits"_a = nb::none(), "bias"_a = nb::none(),
           "sinks"_a = nb::none(), "additive"_a = nb::none(), "bounded"_a = false, "dropout"_a = 0.0, "seed"_a = 0,
           "first_batch"_a = 0, "first_head"_a = 0, "first_query"_a = 0, "first_key"_a = 0, "whole_rows"_a = 0,
           "whole_keys"_a = 0);
  m.def("forward", &forward, "problem"_a, "output"_a, "lse"_a = nb::none(), "rest"_a = nb::none(), "received"_a = nb::none(),
        "entropy"_a = nb::none(), nb::kw_only(), "threads"_a = 0, "level"_a = nb::none(), "panels"_a = false);
  m.def("backward", &backward, "problem"_a, "output"_a, "lse"_a, "rest"_a.none(), "dy"_a, "dlse"_a.none(), "dq"_a.none(), "dk"_a.none(),
        "dv"_a.none(),
        "dbias"_a = nb::none(), "dsinks"_a = nb::none(), "dadditive"_a = nb::none(), nb::kw_only(), "threads"_a = 0, "level"_a = nb::none());
  m.def("statistics", &statistics, "problem"_a, "lse"_a, "rest"_a.none(), "received"_a = nb::none(), "entropy"_a = nb::none(),
        "keys"_a = nb::none(), "found"_a = nb::none(), "rows"_a = std::vector<std::int64_t>(), "output"_a = nb::none(),
        "off"_a = nb::none(), nb::kw_only(), "limit"_a = std::numeric_limits<double>::infinity(), "threads"_a = 0, "level"_a = nb::none());
  m.def("top", &top, "problem"_a, "lse"_a, "rest"_a.none(), "indices"_a, "weights"_a, nb::kw_only(), "threads"_a = 0,
        "level"_a = nb::none());
  m.def("map", &map, "problem"_a, "lse"_a, "rest"_a.none(), "row_bins"_a, "col_bins"_a, "out"_a, "pool"_a, nb::kw_only(),
        "threads"_a = 0, "level"_a = nb::none());
  m.def("weights", &weights, "problem"_a, "lse"_a, "rest"_a.none(), "out"_a, nb::kw_only(), "threads"_a = 0, "level"_a = nb::none());
  m.def("plain_forward", &plain_forward, "q"_a, "k"_a, "v"_a, "dtype"_a, "scale"_a.none(), "first"_a.none(), "last"_a.none(),
        "output"_a, "lse"_a.none(), "threads"_a);
  m.def("plain_backward", &plain_backward, "q"_a, "k"_a, "v"_a, "dtype"_a, "scale"_a.none(), "first"_a.none(),
        "last"_a.none(), "output"_a, "lse"_a, "dy"_a, "dq"_a.none(), "dk"_a.none(), "dv"_a.none(), "limit"_a, "threads"_a);
  m.def("levels", [] {
    std::vector<std::string> names;
    for (const Level* l = kLevels; l->name; ++l)
      if (supported(*l)) names.push_back(l->name);
    return names;
  });
  m.def(
      "features",
      [](const char* name) {
        const Level* chosen = level(name);
        std::vector<std::string> names;
        for (const Feature* f = kFeatures; chosen && f->name; ++f)
          if (f->rank <= chosen->rank) names.push_back(f->name);
        return names;
      },
      "level"_a);
  m.def("threads", &default_threads);
  m.def("poison", [](bool on) { poison_scratch = on; }, "on"_a);
}
