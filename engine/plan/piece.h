// A piece: what one block of a data-dependent stage produced, as one stored object. Its extents are in the journal, its
// content carries a checksum.
#pragma once
#include <cstdint>
#include <string>

#include "storage/buffer.h"
#include "storage/error.h"
#include "storage/store.h"
#include "storage/types.h"
#include "storage/zarr.h"

namespace cuboid {

// Writes the leading part of a C-contiguous buffer. An empty piece stores nothing.
Written write_piece(Store& store, const std::string& key, const ConstView& content, MemoryAccount& account);
// Reads a whole piece of the given extents. Throws Error{corrupt} naming the key where it is missing or differs.
void read_piece(const Store& store, const std::string& key, const View& into, MemoryAccount& account);
// What those take beside the content, in account bytes, for extents of at most `bound`.
std::size_t piece_write_memory(const Shape& bound, DType dtype);
std::size_t piece_read_memory(const Shape& bound, DType dtype);

}  // namespace cuboid
