// A set of block numbers of one stage: a bit each, so that a stage of a million tasks costs 125 kB.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace cuboid {

class BlockSet {
 public:
  BlockSet() = default;
  explicit BlockSet(std::int64_t size, bool all = false)
      : words_(static_cast<std::size_t>((size + 63) / 64), all ? ~std::uint64_t{0} : 0),
        size_(size),
        count_(all ? size : 0) {
    if (all && size % 64 != 0) words_.back() >>= 64 - size % 64;
  }
  std::int64_t size() const { return size_; }
  std::int64_t count() const { return count_; }
  bool full() const { return count_ == size_; }
  bool contains(std::int64_t block) const { return (word(block) >> (block & 63)) & 1; }
  void insert(std::int64_t block) {
    if (contains(block)) return;
    word(block) |= std::uint64_t{1} << (block & 63);
    ++count_;
  }
  void erase(std::int64_t block) {
    if (!contains(block)) return;
    word(block) &= ~(std::uint64_t{1} << (block & 63));
    --count_;
  }
  // The first block at or after `from` that is not in the set; size() where there is none.
  std::int64_t next_absent(std::int64_t from) const { return scan(from, ~std::uint64_t{0}); }
  // The first block at or after `from` that is in the set; size() where there is none.
  std::int64_t next(std::int64_t from) const { return scan(from, 0); }

 private:
  std::uint64_t& word(std::int64_t block) { return words_[static_cast<std::size_t>(block >> 6)]; }
  std::uint64_t word(std::int64_t block) const { return words_[static_cast<std::size_t>(block >> 6)]; }
  std::int64_t scan(std::int64_t from, std::uint64_t flip) const {
    if (from >= size_) return size_;
    std::int64_t at = from >> 6;
    std::uint64_t bits = (words_[static_cast<std::size_t>(at)] ^ flip) & (~std::uint64_t{0} << (from & 63));
    const auto words = static_cast<std::int64_t>(words_.size());
    while (bits == 0 && ++at < words) bits = words_[static_cast<std::size_t>(at)] ^ flip;
    if (bits == 0) return size_;
    const std::int64_t found = (at << 6) + std::countr_zero(bits);
    return found < size_ ? found : size_;
  }

  std::vector<std::uint64_t> words_;
  std::int64_t size_ = 0, count_ = 0;
};

}  // namespace cuboid
