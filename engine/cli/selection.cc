#include "engine/cli/selection.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "storage/error.h"

namespace cuboid {
namespace {

using Axis = Selection::Axis;

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(trimmed(text.substr(start, end - start)));
    start = end + 1;
  }
  return parts;
}

[[noreturn]] void fail(const std::string& entry, const std::string& why) {
  throw Error(ErrorKind::invalid, "--box: '" + entry + "': " + why);
}

std::int64_t integer(const std::string& text, const std::string& entry) {
  std::int64_t value = 0;
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, code] = std::from_chars(first, text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size())
    fail(entry, "expected an index such as 5 or -1, or a slice such as 0:10, : or ::2");
  return value;
}

// As Python's slice.indices(), but bounds beyond the axis are refused: they are a slip, and clipping would hide it.
Axis slice(const std::vector<std::string>& parts, const std::string& entry, std::int64_t extent) {
  if (parts.size() > 3) fail(entry, "expected at most start:stop:step");
  Axis axis;
  axis.step = parts.size() == 3 && !parts[2].empty() ? integer(parts[2], entry) : 1;
  if (axis.step == 0) fail(entry, "the step of a slice is not zero");
  axis.step = std::clamp(axis.step, -extent - 1, extent + 1);  // longer ones select the same
  const bool back = axis.step < 0;
  const auto bound = [&](std::size_t k, std::int64_t otherwise) {
    if (parts.size() <= k || parts[k].empty()) return otherwise;
    std::int64_t value = integer(parts[k], entry);
    if (value < -extent || value > extent)
      fail(entry, parts[k] + " is outside of an axis of " + std::to_string(extent) + " elements");
    if (value < 0) value += extent;
    return back ? std::min(value, extent - 1) : value;
  };
  axis.start = bound(0, back ? extent - 1 : 0);
  const std::int64_t stop = bound(1, back ? -1 : extent);
  const std::int64_t span = back ? axis.start - stop : stop - axis.start;
  axis.count = span > 0 ? (span + std::abs(axis.step) - 1) / std::abs(axis.step) : 0;
  return axis;
}

Axis parse_axis(const std::string& entry, std::int64_t extent) {
  if (entry.find(':') != std::string::npos) return slice(split(entry, ':'), entry, extent);
  Axis axis;
  axis.start = integer(entry, entry);
  if (axis.start < -extent || axis.start >= extent)
    fail(entry, "the index is outside of an axis of " + std::to_string(extent) + " elements");
  if (axis.start < 0) axis.start += extent;
  axis.count = 1;
  axis.drop = true;
  return axis;
}

// The box that holds a selection of at least one element.
Box covering(const Selection& selection) {
  Box box;
  for (const Axis& axis : selection.axes) {
    const std::int64_t last = axis.start + axis.step * (axis.count - 1);
    box.origin.push_back(std::min(axis.start, last));
    box.shape.push_back(std::abs(last - axis.start) + 1);
  }
  return box;
}

// How many indices of the first part, where an axis is cut in two: near the middle, at a chunk's border if there is
// one.
std::int64_t cut(const Axis& axis, std::int64_t chunk) {
  const std::int64_t half = axis.count / 2;
  const auto chunk_of = [&](std::int64_t k) { return (axis.start + axis.step * k) / chunk; };
  for (std::int64_t k = half; k > 0 && half - k <= chunk; --k)
    if (chunk_of(k) != chunk_of(k - 1)) return k;
  for (std::int64_t k = half + 1; k < axis.count && k - half <= chunk; ++k)
    if (chunk_of(k) != chunk_of(k - 1)) return k;
  return half;
}

void read_part(const ZarrArray& array, const Selection& part, std::size_t limit, MemoryAccount& account,
               const std::function<void(const ConstView&)>& each) {
  const Box box = covering(part);
  const std::size_t bytes = byte_count(box.shape, array.dtype());
  const auto first = std::find_if(part.axes.begin(), part.axes.end(), [](const Axis& axis) { return axis.count > 1; });
  if (bytes > limit && first != part.axes.end()) {
    const auto k = static_cast<std::size_t>(first - part.axes.begin());
    const std::int64_t head = cut(*first, array.metadata().write_chunks()[k]);
    Selection front = part, back = part;
    front.axes[k].count = head;
    back.axes[k].start += back.axes[k].step * head;
    back.axes[k].count -= head;
    read_part(array, front, limit, account, each);
    read_part(array, back, limit, account, each);
    return;
  }
  Buffer buffer = account.acquire(bytes);
  const View whole = make_view(buffer.data(), array.dtype(), box.shape);
  array.read(box, whole, account);
  ConstView selected = whole;
  for (std::size_t axis = 0; axis < part.axes.size(); ++axis) {
    selected.data += (part.axes[axis].start - box.origin[axis]) * whole.strides[axis];
    selected.strides[axis] = whole.strides[axis] * part.axes[axis].step;
    selected.shape[axis] = part.axes[axis].count;
  }
  each(selected);
}

}  // namespace

Shape Selection::shape() const {
  Shape shape;
  for (const Axis& axis : axes)
    if (!axis.drop) shape.push_back(axis.count);
  return shape;
}

Selection parse_selection(const std::string& text, const Shape& shape) {
  Selection selection;
  std::vector<std::string> entries = text.empty() ? std::vector<std::string>{} : split(text, ',');
  const auto ellipses = std::count(entries.begin(), entries.end(), "...");
  if (ellipses > 1) fail("...", "expected at most one ellipsis");
  if (entries.size() - static_cast<std::size_t>(ellipses) > shape.size())
    throw Error(ErrorKind::invalid, "--box: " + std::to_string(entries.size() - static_cast<std::size_t>(ellipses)) +
                                        " entries for an array of shape " + to_string(shape));
  if (ellipses == 0) entries.push_back("...");
  std::size_t missing = shape.size() - (entries.size() - 1);
  for (const std::string& entry : entries) {
    if (entry == "...") {
      for (; missing > 0; --missing) selection.axes.push_back({0, 1, shape[selection.axes.size()], false});
    } else {
      selection.axes.push_back(parse_axis(entry, shape[selection.axes.size()]));
    }
  }
  return selection;
}

void read_selection(const ZarrArray& array, const Selection& selection, std::size_t limit, MemoryAccount& account,
                    const std::function<void(const ConstView&)>& each) {
  for (const Axis& axis : selection.axes)
    if (axis.count == 0) return;
  read_part(array, selection, limit, account, each);
}

}  // namespace cuboid
