#include "engine/expr/view_kernel.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/expr/builtin.h"
#include "storage/error.h"

namespace cuboid {
namespace {

class ViewKernel final : public Kernel {
 public:
  ViewKernel(KernelSpec spec, std::vector<AxisMap> axes, std::vector<Extent> result)
      : Kernel(std::move(spec)), axes_(std::move(axes)), input_(std::get<ArraySpec>(spec_.args[0])) {
    ArraySpec output;
    output.dtype = input_.dtype;
    output.extents = std::move(result);
    outputs_.push_back({"0", std::move(output), std::nullopt});
    sources_.assign(domain().size(), std::nullopt);
    same_ = axes_.size() == sources_.size() && domain() == input_.max_shape();
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const AxisMap& map = axes_[axis];
      if (map.output) sources_[*map.output] = axis;
      same_ = same_ && map.output == axis && map.offset == 0 && map.step == 1;
    }
  }

  std::string identity() const override { return spec_.function + "#1"; }
  bool identity_map() const override { return same_; }
  bool input_is_block(std::size_t) const override { return same_; }
  CallMemory memory(Phase, const Shape&) const override { return {}; }

  Shape preferred_block(const std::vector<Shape>& input_chunks) const override {
    const Shape shape = domain();
    Shape block = shape;
    std::vector<bool> fixed(shape.size(), false);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (sources_[axis]) {
        const std::int64_t step = std::abs(axes_[*sources_[axis]].step);
        block[axis] = (input_chunks.at(0)[*sources_[axis]] + step - 1) / step;
        fixed[axis] = true;
      }
      block[axis] = std::clamp<std::int64_t>(block[axis], 1, std::max<std::int64_t>(shape[axis], 1));
    }
    // Only repeated axes are without chunks of their own.
    return default_block(block, input_.dtype.size, fixed);
  }

  Box input_box(std::size_t, const Box& block) const override {
    const bool nothing = block.empty();
    Box box;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const AxisMap& map = axes_[axis];
      std::int64_t first = map.offset, last = map.offset;
      if (map.output && !nothing) {
        first += map.step * block.origin[*map.output];
        last += map.step * (block.end(*map.output) - 1);
      }
      box.origin.push_back(nothing ? 0 : std::min(first, last));
      box.shape.push_back(nothing ? 0 : std::max(first, last) - box.origin.back() + 1);
    }
    return box;
  }

  Shape input_extents(std::size_t, const Shape& block) const override {
    Shape extents;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const AxisMap& map = axes_[axis];
      const std::int64_t whole = input_.extents[axis].value;
      const std::int64_t step = std::abs(map.step);
      std::int64_t extent = 1;
      // Overflow is out of the question: a step beyond the axis meets one element of it.
      if (map.output)
        extent =
            block[*map.output] > whole / step ? whole : std::max<std::int64_t>(block[*map.output] - 1, 0) * step + 1;
      extents.push_back(std::min(extent, whole));
    }
    return extents;
  }

  void run(KernelCall& call) const override {
    const View& out = call.out[0];
    if (call.block.empty()) return;
    ConstView in{out.dtype, call.in[0].data, out.shape, Shape(out.shape.size(), 0)};
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const AxisMap& map = axes_[axis];
      std::int64_t first = map.offset - call.in_box[0].origin[axis];
      if (map.output) {
        first += map.step * call.block.origin[*map.output];
        in.strides[*map.output] = map.step * call.in[0].strides[axis];
      }
      in.data += first * call.in[0].strides[axis];
    }
    copy_elements(in, out);
  }

 private:
  std::vector<AxisMap> axes_;
  ArraySpec input_;
  std::vector<std::optional<std::size_t>> sources_;  // by output axis
  bool same_ = false;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

[[noreturn]] void bad_item(std::string_view item) {
  throw Error(ErrorKind::invalid, "\"" + std::string(item) +
                                      "\" is no index; expected an integer, a slice such as 2:10:3, \"...\" or None");
}

std::optional<std::int64_t> parse_number(std::string_view text, std::string_view item) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  if (text.front() == '+') text.remove_prefix(1);
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) bad_item(item);
  return number;
}

IndexItem parse_item(std::string_view text) {
  using What = IndexItem::What;
  if (text == "...") return {What::ellipsis, {}, {}, {}};
  if (text == "None" || text == "newaxis" || text == "null") return {What::new_axis, {}, {}, {}};
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) {
    const auto number = parse_number(text, text);
    if (!number) bad_item(text);
    return {What::integer, number, {}, {}};
  }
  IndexItem item;
  item.start = parse_number(text.substr(0, first), text);
  const std::size_t second = text.find(':', first + 1);
  item.stop =
      parse_number(text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1), text);
  if (second != std::string_view::npos) item.step = parse_number(text.substr(second + 1), text);
  if (item.step == 0)
    throw Error(ErrorKind::invalid, "\"" + std::string(text) + "\": the step of a slice must not be 0");
  return item;
}

}  // namespace

std::shared_ptr<const Kernel> make_view_kernel(KernelSpec spec, std::vector<AxisMap> axes, std::vector<Extent> result) {
  return std::make_shared<ViewKernel>(std::move(spec), std::move(axes), std::move(result));
}

std::vector<IndexItem> parse_index(const std::string& text) {
  std::vector<IndexItem> items;
  std::string_view rest = text;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = trim(rest.substr(0, comma));
    // Python allows a comma after the last item.
    if (item.empty() && comma == std::string_view::npos && !items.empty()) return items;
    items.push_back(parse_item(item));
    if (items.size() > 4 * kMaxRank) throw Error(ErrorKind::invalid, "more items than an array can have axes");
    if (comma == std::string_view::npos) return items;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace cuboid
