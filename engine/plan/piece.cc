#include "engine/plan/piece.h"

#include <nlohmann/json.hpp>

#include "storage/crc32c.h"

namespace cuboid {

namespace {

std::shared_ptr<const CodecChain> chain_for(const Shape& extents, DType dtype) {
  nlohmann::json codecs = codecs_by_name("blosc-lz4", dtype);
  codecs.push_back({{"name", "crc32c"}});
  return make_codec_chain(codecs, {dtype, extents});
}

}  // namespace

Written write_piece(Store& store, const std::string& key, const ConstView& content, MemoryAccount& account) {
  const std::size_t bytes = byte_count(content.shape, content.dtype);
  if (bytes == 0) return {};
  const auto chain = chain_for(content.shape, content.dtype);
  Buffer encoded = account.acquire(chain->encoded_bound());
  const std::size_t length = chain->encode({content.data, bytes}, encoded.bytes(), account);
  store.put(key, std::span<const std::byte>(encoded.data(), length));
  return {length, crc32c({encoded.data(), length})};
}

void read_piece(const Store& store, const std::string& key, const View& into, MemoryAccount& account) {
  const std::size_t bytes = byte_count(into.shape, into.dtype);
  if (bytes == 0) return;
  const auto chain = chain_for(into.shape, into.dtype);
  Buffer encoded = account.acquire(chain->encoded_bound());
  const auto length = store.read(key, encoded.bytes());
  if (!length)
    throw Error(ErrorKind::corrupt, "a block's result is missing: " + store.describe(key),
                {{"file", store.describe(key)}});
  try {
    chain->decode({encoded.data(), *length}, {into.data, bytes}, account);
  } catch (Error& error) {
    throw error.add("file", store.describe(key));
  }
}

std::size_t piece_write_memory(const Shape& bound, DType dtype) {
  if (byte_count(bound, dtype) == 0) return 0;
  const auto chain = chain_for(bound, dtype);
  return class_bytes(chain->encoded_bound()) + chain->encode_scratch();
}

std::size_t piece_read_memory(const Shape& bound, DType dtype) {
  if (byte_count(bound, dtype) == 0) return 0;
  const auto chain = chain_for(bound, dtype);
  return class_bytes(chain->encoded_bound()) + chain->decode_scratch();
}

}  // namespace cuboid
