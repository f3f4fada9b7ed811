// nonzero and select: what of an array depends on its elements. Blocks are runs of the C order, so that the pieces, one
// after another, are the result.
#include <algorithm>
#include <cstring>

#include "engine/expr/builtin.h"
#include "engine/expr/cast.h"
#include "engine/expr/params.h"
#include "engine/expr/promotion.h"

namespace cuboid {
namespace {

// Elements of a block at most, unless one index of the innermost axis has more.
constexpr std::int64_t kBlockElements = 1 << 20;

// A chunk that is this many blocks' size at most is taken as a whole: it would be decoded for every part of it.
constexpr std::int64_t kPartsWorthCutting = 4;

// A run of the C order of `shape`: whole rows as far as they fit, of the extent that chunks have.
Shape c_order_block(const Shape& shape, const Shape& chunks) {
  Shape block(shape.size(), 1);
  std::int64_t inner = 1;  // elements of one index of the axis
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const std::int64_t extent = std::max<std::int64_t>(shape[axis], 1);
    const std::int64_t fit = std::max<std::int64_t>(kBlockElements / inner, 1);
    if (fit < extent) {
      const std::int64_t chunk = std::clamp<std::int64_t>(chunks[axis], 1, extent);
      // Whole chunks where they fit, or nearly; of a larger one an even part.
      const std::int64_t parts = (chunk + fit - 1) / fit;
      block[axis] = fit >= chunk                  ? fit / chunk * chunk
                    : parts <= kPartsWorthCutting ? chunk
                                                  : (chunk + parts - 1) / parts;
      return block;
    }
    block[axis] = extent;
    inner *= extent;
  }
  return block;
}

// Which elements are not zero, as booleans, in strips.
class TruthReader {
 public:
  explicit TruthReader(const ConstView& view) { reader_.reset(view, kBool); }
  const std::uint8_t* next(std::int64_t n) { return reinterpret_cast<const std::uint8_t*>(reader_.next(n)); }

 private:
  StripReader reader_;
};

class NonzeroKernel final : public Kernel {
 public:
  explicit NonzeroKernel(KernelSpec spec) : Kernel(std::move(spec)), input_(std::get<ArraySpec>(spec_.args[0])) {
    Extent rows{element_count(input_.max_shape()), Trust::bound};
    for (std::size_t axis = 0; axis < input_.rank(); ++axis) rows = user_bound(spec_, axis, rows);
    for (std::size_t axis = 0; axis < input_.rank(); ++axis) {
      ArraySpec indices;
      indices.dtype = kInt64;
      indices.extents = {rows};
      outputs_.push_back({std::to_string(axis), std::move(indices), 0});
    }
  }
  std::string identity() const override { return "nonzero#1"; }
  Shape domain() const override { return input_.max_shape(); }
  bool in_c_order() const override { return true; }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    return c_order_block(domain(), input_chunks.at(0));
  }
  Box input_box(std::size_t, const Box& block) const override { return block; }
  Shape input_extents(std::size_t, const Shape& block) const override { return block; }
  bool input_is_block(std::size_t) const override { return true; }
  Shape output_extents(std::size_t, const Shape& block) const override { return {element_count(block)}; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }

  void run(KernelCall& call) const override {
    const std::size_t rank = input_.rank();
    const std::int64_t total = element_count(call.block.shape);
    std::vector<std::int64_t*> to;
    for (const View& out : call.out) to.push_back(reinterpret_cast<std::int64_t*>(out.data));
    Shape index = call.block.origin;
    TruthReader reader(call.in[0]);
    const std::uint8_t* strip = nullptr;
    std::int64_t rows = 0, in_strip = 0, at = 0;
    for (std::int64_t done = 0; done < total; ++done) {
      if (at == in_strip) {
        in_strip = std::min(kStrip, total - done);
        strip = reader.next(in_strip);
        at = 0;
      }
      if (strip[at++] != 0) {
        for (std::size_t axis = 0; axis < rank; ++axis) to[axis][rows] = index[axis];
        ++rows;
      }
      for (std::size_t axis = rank; axis-- > 0;) {
        if (++index[axis] < call.block.end(axis)) break;
        index[axis] = call.block.origin[axis];
      }
    }
    for (Shape& produced : call.produced) produced[0] = rows;
  }

 private:
  ArraySpec input_;
};

// x[mask]: the mask has the leading axes of x.
class SelectKernel final : public Kernel {
 public:
  explicit SelectKernel(KernelSpec spec)
      : Kernel(std::move(spec)), input_(std::get<ArraySpec>(spec_.args[0])), mask_(std::get<ArraySpec>(spec_.args[1])) {
    ArraySpec result;
    result.dtype = input_.dtype;
    result.extents.push_back(user_bound(spec_, 0, {element_count(mask_.max_shape()), Trust::bound}));
    for (std::size_t axis = mask_.rank(); axis < input_.rank(); ++axis) result.extents.push_back(input_.extents[axis]);
    outputs_.push_back({"0", std::move(result), 0});
  }
  std::string identity() const override { return "select#1"; }
  Shape domain() const override { return mask_.max_shape(); }
  bool in_c_order() const override { return true; }
  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    // Rows of x count, not elements of the mask alone.
    const Shape whole = input_.max_shape();
    Shape chunks = input_chunks.at(0);
    for (std::size_t axis = mask_.rank(); axis < whole.size(); ++axis)
      chunks[axis] = std::max<std::int64_t>(whole[axis], 1);
    Shape block = c_order_block(whole, chunks);
    block.resize(mask_.rank());
    return block;
  }
  Box input_box(std::size_t k, const Box& block) const override {
    Box box = block;
    for (std::size_t axis = mask_.rank(); k == 0 && axis < input_.rank(); ++axis) {
      box.origin.push_back(0);
      box.shape.push_back(input_.extents[axis].value);
    }
    return box;
  }
  Shape input_extents(std::size_t k, const Shape& block) const override {
    return input_box(k, Box::whole(block)).shape;
  }
  bool input_is_block(std::size_t k) const override { return k == 1 || mask_.rank() == input_.rank(); }
  Shape output_extents(std::size_t, const Shape& block) const override {
    Shape extents{element_count(block)};
    for (std::size_t axis = mask_.rank(); axis < input_.rank(); ++axis) extents.push_back(input_.extents[axis].value);
    return extents;
  }
  CallMemory memory(Phase, const Shape&) const override { return {}; }

  void run(KernelCall& call) const override {
    std::int64_t rows = 0;
    if (mask_.rank() == input_.rank())
      rows = select_elements(call);
    else
      rows = select_rows(call);
    call.produced[0][0] = rows;
  }

 private:
  std::int64_t select_elements(KernelCall& call) const {
    const std::size_t size = input_.dtype.size;
    const std::int64_t total = element_count(call.block.shape);
    StripReader elements;
    elements.reset(call.in[0], input_.dtype);
    TruthReader truth(call.in[1]);
    std::byte* to = call.out[0].data;
    for (std::int64_t done = 0; done < total;) {
      const std::int64_t n = std::min(kStrip, total - done);
      const std::byte* from = elements.next(n);
      const std::uint8_t* chosen = truth.next(n);
      for (std::int64_t k = 0; k < n; ++k)
        if (chosen[k] != 0) {
          std::memcpy(to, from + k * static_cast<std::int64_t>(size), size);
          to += size;
        }
      done += n;
    }
    return (to - call.out[0].data) / static_cast<std::int64_t>(size);
  }

  std::int64_t select_rows(KernelCall& call) const {
    const std::size_t lead = mask_.rank();
    const ConstView& in = call.in[0];
    const View& out = call.out[0];
    ConstView row{in.dtype, in.data, Shape(in.shape.begin() + static_cast<std::ptrdiff_t>(lead), in.shape.end()),
                  Shape(in.strides.begin() + static_cast<std::ptrdiff_t>(lead), in.strides.end())};
    View place{out.dtype, out.data, row.shape, Shape(out.strides.begin() + 1, out.strides.end())};
    const std::int64_t total = element_count(call.block.shape);
    TruthReader truth(call.in[1]);
    Shape index(lead, 0);
    std::int64_t rows = 0;
    for (std::int64_t done = 0; done < total; ++done) {
      if (*truth.next(1) != 0) {
        row.data = in.data;
        for (std::size_t axis = 0; axis < lead; ++axis) row.data += index[axis] * in.strides[axis];
        place.data = out.data + rows * out.strides[0];
        copy_elements(row, place);
        ++rows;
      }
      for (std::size_t axis = lead; axis-- > 0;) {
        if (++index[axis] < call.block.shape[axis]) break;
        index[axis] = 0;
      }
    }
    return rows;
  }

  ArraySpec input_, mask_;
};

std::shared_ptr<const Kernel> make_nonzero(KernelSpec spec) {
  expect_args(spec, 1, 1);
  const ArraySpec& input = array_arg(spec, 0);
  dtype_index(input.dtype);
  const ParamReader params(spec, {});
  if (input.rank() == 0) params.fail("expected an array with axes, this one has none");
  return std::make_shared<NonzeroKernel>(std::move(spec));
}

std::shared_ptr<const Kernel> make_select(KernelSpec spec) {
  expect_args(spec, 2, 2);
  const ArraySpec &input = array_arg(spec, 0), &mask = array_arg(spec, 1);
  const ParamReader params(spec, {});
  if (mask.dtype != kBool)
    params.fail("the mask (the second argument) must be boolean, it is " + to_string(mask.dtype) +
                "; compare first, for example with not_equal");
  bool fits = mask.rank() >= 1 && mask.rank() <= input.rank();
  for (std::size_t axis = 0; fits && axis < mask.rank(); ++axis) {
    const Extent &a = input.extents[axis], &b = mask.extents[axis];
    fits = a.value == b.value || a.trust != Trust::exact || b.trust != Trust::exact;
  }
  if (!fits)
    params.fail("the mask has the shape " + to_string(mask.max_shape()) + ", the array " +
                to_string(input.max_shape()) + ": expected a mask of the array's first axes, one at least");
  return std::make_shared<SelectKernel>(std::move(spec));
}

}  // namespace

std::vector<BuiltinFunction> selection_builtins() {
  const std::string none = "0: no extra memory; a block's result has room for all of its elements";
  return {
      {{"nonzero",
        "builtin",
        "nonzero(x)",
        "Where the elements are that are not 0, in C order: an array of indices for each axis (0, 1, ...).",
        none,
        {}},
       make_nonzero},
      {{"select",
        "builtin",
        "select(x, mask)",
        "x[mask]: the elements, in C order, at which a boolean mask is true; where it has fewer axes than x, the parts of "
        "x behind them.",
        none,
        {}},
       make_select},
  };
}

}  // namespace cuboid
