// The way from a C-ordered native chunk to its serialised elements: a permutation of axes (transpose codecs, v2 order
// F) and a byte order. Private to storage/.
#pragma once
#include "storage/codec_stage.h"
#include "storage/types.h"

namespace cuboid {

// The "order" of a transpose codec, checked: axis i of the result is axis order[i] of `rank` axes.
std::vector<std::size_t> transpose_order(CodecConfig& config, std::size_t rank);

class Layout final : public CodecStage {
 public:
  Layout(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)), axes_(shape_.size()) {
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) axes_[axis] = axis;
  }

  // Adds a transpose after those there are: axis i of the result is axis order[i] of what was.
  void transpose(const std::vector<std::size_t>& order);
  void set_swapped(bool swapped);  // stored in the byte order that is not this machine's

  Shape stored_shape() const;
  // A box of the chunk and a view of it in the stored order of axes.
  Box stored(const Box& box) const;
  View stored(const View& view) const;
  bool permuted() const { return permuted_; }
  bool identity() const { return !permuted_ && !swapped_; }
  void swap_in_place(std::span<std::byte> bytes) const;  // nothing where the byte order is native

  std::size_t bound(std::size_t decoded) const override { return decoded; }
  std::size_t encode_scratch(std::size_t) const override { return 0; }
  std::size_t decode_scratch(std::size_t) const override { return 0; }
  std::size_t encode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override;
  std::size_t decode(std::span<const std::byte> from, std::span<std::byte> to, MemoryAccount&) const override;

 private:
  Shape permuted_strides() const;  // of the chunk in memory, in the stored order of axes

  DType dtype_;
  Shape shape_;
  std::vector<std::size_t> axes_;  // stored axis -> axis of the chunk
  bool permuted_ = false;
  bool swapped_ = false;
  std::size_t swap_unit_ = 0;  // bytes of one number where all are alike; else they are reversed one by one
};

}  // namespace cuboid
