#include "storage/codec_layout.h"

#include <algorithm>
#include <cstring>

#include "storage/opaque_type.h"

namespace cuboid {
namespace {

template <class Word, Word (*kSwap)(Word)>
void swap_words(std::span<std::byte> bytes) {
  for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    word = kSwap(word);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

std::uint16_t swap16(std::uint16_t word) { return __builtin_bswap16(word); }
std::uint32_t swap32(std::uint32_t word) { return __builtin_bswap32(word); }
std::uint64_t swap64(std::uint64_t word) { return __builtin_bswap64(word); }

}  // namespace

std::vector<std::size_t> transpose_order(CodecConfig& config, std::size_t rank) {
  const nlohmann::json* order = config.value("order");
  std::vector<std::size_t> axes(rank);
  if (order && order->is_string() && (*order == "C" || *order == "F")) {  // drafts of Zarr v3 wrote these
    for (std::size_t axis = 0; axis < rank; ++axis) axes[axis] = *order == "C" ? axis : rank - 1 - axis;
  } else {
    const auto refuse = [&] {
      config.fail("'order' is " + (order ? order->dump() : "missing") + ": expected a permutation of the " +
                  std::to_string(rank) + " axes");
    };
    if (!order || !order->is_array() || order->size() != rank) refuse();
    std::vector<bool> seen(rank, false);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const nlohmann::json& entry = (*order)[axis];
      if (!entry.is_number_unsigned() || entry.get<std::uint64_t>() >= rank || seen[entry.get<std::size_t>()]) refuse();
      axes[axis] = entry.get<std::size_t>();
      seen[axes[axis]] = true;
    }
  }
  return axes;
}

void Layout::transpose(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> axes(order.size());
  for (std::size_t axis = 0; axis < order.size(); ++axis) axes[axis] = axes_[order[axis]];
  axes_ = std::move(axes);
  // Axes of extent 1 may stand anywhere without moving a byte.
  std::size_t last = 0;
  permuted_ = false;
  for (std::size_t axis : axes_) {
    if (shape_[axis] == 1) continue;
    permuted_ = permuted_ || axis < last;
    last = axis;
  }
}

void Layout::set_swapped(bool swapped) {
  swapped_ = swapped && has_byte_order(dtype_);
  const std::size_t number = uniform_number_size(dtype_);
  swap_unit_ = swapped_ && number > 1 ? number : 0;
}

Shape Layout::stored_shape() const {
  Shape shape(axes_.size());
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) shape[axis] = shape_[axes_[axis]];
  return shape;
}

Box Layout::stored(const Box& box) const {
  Box stored = box;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    stored.origin[axis] = box.origin[axes_[axis]];
    stored.shape[axis] = box.shape[axes_[axis]];
  }
  return stored;
}

View Layout::stored(const View& view) const {
  View stored = view;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    stored.shape[axis] = view.shape[axes_[axis]];
    stored.strides[axis] = view.strides[axes_[axis]];
  }
  return stored;
}

Shape Layout::permuted_strides() const {
  const Shape strides = contiguous_strides(shape_, dtype_.size);
  Shape permuted(axes_.size());
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) permuted[axis] = strides[axes_[axis]];
  return permuted;
}

void Layout::swap_in_place(std::span<std::byte> bytes) const {
  switch (swap_unit_) {
    case 2:
      return swap_words<std::uint16_t, swap16>(bytes);
    case 4:
      return swap_words<std::uint32_t, swap32>(bytes);
    case 8:
      return swap_words<std::uint64_t, swap64>(bytes);
    default:
      break;
  }
  if (!swapped_) return;
  for (std::size_t at = 0; at + dtype_.size <= bytes.size(); at += dtype_.size) {  // a structure, number by number
    for (const auto& number : dtype_.opaque->numbers) {
      std::byte* first = bytes.data() + at + number.offset;
      std::reverse(first, first + number.size);
    }
  }
}

std::size_t Layout::encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const {
  if (permuted_) {
    const Shape stored = stored_shape();
    copy_elements(ConstView{dtype_, from.data(), stored, permuted_strides()}, make_view(to.data(), dtype_, stored));
  } else {
    std::memcpy(to.data(), from.data(), from.size());
  }
  swap_in_place(to.first(from.size()));
  return from.size();
}

std::size_t Layout::decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const {
  if (from.size() != to.size()) {
    throw_corrupt("bytes",
                  "has " + std::to_string(from.size()) + " bytes of elements: expected " + std::to_string(to.size()));
  }
  if (permuted_) {
    const Shape stored = stored_shape();
    copy_elements(make_view(from.data(), dtype_, stored), View{dtype_, to.data(), stored, permuted_strides()});
  } else {
    std::memcpy(to.data(), from.data(), from.size());
  }
  swap_in_place(to);
  return to.size();
}

}  // namespace cuboid
