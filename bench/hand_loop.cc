// What the machine can do: each benchmark's work as one would write it by hand for exactly this work (read, decode,
// compute, encode, write under a temporary name and rename; buffers used again; as many threads as the engine has).
//
//   hand_loop THREADS make PATH ROWS COLUMNS CHUNK_ROWS CHUNK_COLUMNS SEED
//   hand_loop THREADS copy A OUT | add A B OUT | mean A OUT | mean0 A OUT | rechunk A OUT | gaussian A OUT
//   hand_loop THREADS compare A B        largest |a - b| / max(1, |b|); arrays of the same chunks
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/zarr_file.h"

namespace bench {
namespace {

int threads = 1;

// Buffers of one thread.
struct Lane {
  std::vector<std::unique_ptr<Buffer>> buffers;
  Buffer& buffer(std::size_t k, std::size_t bytes) {
    if (buffers.size() <= k) buffers.resize(k + 1);
    if (!buffers[k] || buffers[k]->size() < bytes) buffers[k] = std::make_unique<Buffer>(bytes);
    return *buffers[k];
  }
};

// Calls work(lane, i) for i < count on all threads.
void for_each(std::ptrdiff_t count, const std::function<void(Lane&, std::ptrdiff_t)>& work) {
  std::atomic<std::ptrdiff_t> next{0};
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      Lane lane;
      for (std::ptrdiff_t k; (k = next++) < count;) work(lane, k);
    });
  }
  for (auto& thread : pool) thread.join();
}

void for_each_chunk(const ZarrFile& file, const std::function<void(Lane&, Extents)>& work) {
  const auto [rows, columns] = file.grid();
  for_each(rows * columns, [&](Lane& lane, std::ptrdiff_t k) { work(lane, Extents{k / columns, k % columns}); });
}

// A smooth field with noise of 31 bits: compresses by about 1.8 with lz4, as exposures in float64 do.
void make(const std::string& path, Extents shape, Extents chunks, unsigned seed) {
  const auto out = ZarrFile::create(path, shape, chunks);
  for_each_chunk(out, [&](Lane& lane, Extents chunk) {
    std::minstd_rand random(seed + static_cast<unsigned>(chunk[0] * out.grid()[1] + chunk[1]) * 7919u + 1);
    double* values = lane.buffer(0, out.chunk_bytes()).values();
    for (std::ptrdiff_t y = 0; y < chunks[0]; ++y) {
      const double wave = 400 * std::sin(0.001 * static_cast<double>(chunk[0] * chunks[0] + y));
      for (std::ptrdiff_t x = 0; x < chunks[1]; ++x) {
        values[y * chunks[1] + x] = 1000 + wave + static_cast<double>(random()) * 0x1p-25;
      }
    }
    out.write(chunk, values, lane.buffer(1, out.encoded_bound()));
  });
}

void copy(const std::string& a, const std::string& result) {
  const auto in = ZarrFile::open(a);
  const auto out = ZarrFile::create(result, in.shape(), in.chunks());
  for_each_chunk(in, [&](Lane& lane, Extents chunk) {
    auto& encoded = lane.buffer(0, in.encoded_bound());
    double* values = lane.buffer(1, in.chunk_bytes()).values();
    in.read(chunk, values, encoded);
    out.write(chunk, values, encoded);
  });
}

void add(const std::string& a, const std::string& b, const std::string& result) {
  const auto left = ZarrFile::open(a), right = ZarrFile::open(b);
  const auto out = ZarrFile::create(result, left.shape(), left.chunks());
  const std::ptrdiff_t count = left.chunks()[0] * left.chunks()[1];
  for_each_chunk(left, [&](Lane& lane, Extents chunk) {
    auto& encoded = lane.buffer(0, left.encoded_bound());
    double* x = lane.buffer(1, left.chunk_bytes()).values();
    double* y = lane.buffer(2, left.chunk_bytes()).values();
    left.read(chunk, x, encoded);
    right.read(chunk, y, encoded);
    for (std::ptrdiff_t i = 0; i < count; ++i) x[i] += y[i];
    out.write(chunk, x, encoded);
  });
}

// Eight accumulators, so that additions do not wait for each other.
double sum(const double* values, std::ptrdiff_t count) {
  double parts[8] = {};
  std::ptrdiff_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int k = 0; k < 8; ++k) parts[k] += values[i + k];
  }
  for (; i < count; ++i) parts[0] += values[i];
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

void mean(const std::string& a, const std::string& result) {
  const auto in = ZarrFile::open(a);
  const auto out = ZarrFile::create(result, {1, 1}, {1, 1});
  std::vector<double> sums(static_cast<std::size_t>(in.grid()[0] * in.grid()[1]));
  for_each_chunk(in, [&](Lane& lane, Extents chunk) {
    double* values = lane.buffer(1, in.chunk_bytes()).values();
    in.read(chunk, values, lane.buffer(0, in.encoded_bound()));
    sums[static_cast<std::size_t>(chunk[0] * in.grid()[1] + chunk[1])] = sum(values, in.chunks()[0] * in.chunks()[1]);
  });
  const double total = sum(sums.data(), static_cast<std::ptrdiff_t>(sums.size()));
  const double value = total / static_cast<double>(in.shape()[0] * in.shape()[1]);
  Buffer encoded(out.encoded_bound());
  out.write({0, 0}, &value, encoded);
}

void mean0(const std::string& a, const std::string& result) {
  const auto in = ZarrFile::open(a);
  const auto out = ZarrFile::create(result, {1, in.shape()[1]}, {1, in.chunks()[1]});
  const auto [chunk_rows, chunk_columns] = in.chunks();
  std::vector<std::vector<double>> sums(static_cast<std::size_t>(in.grid()[1]));
  std::vector<std::mutex> locks(sums.size());
  for (auto& column : sums) column.assign(static_cast<std::size_t>(chunk_columns), 0.0);
  for_each_chunk(in, [&](Lane& lane, Extents chunk) {
    double* values = lane.buffer(1, in.chunk_bytes()).values();
    in.read(chunk, values, lane.buffer(0, in.encoded_bound()));
    for (std::ptrdiff_t y = 1; y < chunk_rows; ++y) {
      const double* row = values + y * chunk_columns;
      for (std::ptrdiff_t x = 0; x < chunk_columns; ++x) values[x] += row[x];
    }
    const auto k = static_cast<std::size_t>(chunk[1]);
    const std::lock_guard lock(locks[k]);
    for (std::ptrdiff_t x = 0; x < chunk_columns; ++x) sums[k][static_cast<std::size_t>(x)] += values[x];
  });
  Buffer encoded(out.encoded_bound());
  for (std::ptrdiff_t k = 0; k < in.grid()[1]; ++k) {
    auto& column = sums[static_cast<std::size_t>(k)];
    for (double& value : column) value /= static_cast<double>(in.shape()[0]);
    out.write({0, k}, column.data(), encoded);
  }
}

// Chunks (r, c) become (2r, c/2), for an even number of rows of chunks: two chunks, one above the other, are read whole and written as two side by side.
void rechunk(const std::string& a, const std::string& result) {
  const auto in = ZarrFile::open(a);
  const auto [rows, columns] = in.chunks();
  const std::ptrdiff_t half = columns / 2;
  const auto out = ZarrFile::create(result, in.shape(), {2 * rows, half});
  const std::ptrdiff_t across = in.grid()[1];
  for_each(in.grid()[0] / 2 * across, [&](Lane& lane, std::ptrdiff_t k) {
    const Extents pair{k / across, k % across};
    auto& encoded = lane.buffer(0, in.encoded_bound());
    double* source = lane.buffer(1, in.chunk_bytes()).values();
    double* target[2] = {lane.buffer(2, in.chunk_bytes()).values(), lane.buffer(3, in.chunk_bytes()).values()};
    for (std::ptrdiff_t part = 0; part < 2; ++part) {
      in.read({2 * pair[0] + part, pair[1]}, source, encoded);
      for (std::ptrdiff_t y = 0; y < rows; ++y) {
        for (std::ptrdiff_t side = 0; side < 2; ++side) {
          std::memcpy(target[side] + (part * rows + y) * half, source + y * columns + side * half,
                      sizeof(double) * static_cast<std::size_t>(half));
        }
      }
    }
    for (std::ptrdiff_t side = 0; side < 2; ++side) out.write({pair[0], 2 * pair[1] + side}, target[side], encoded);
  });
}

constexpr double kSigma = 1.5;
constexpr std::ptrdiff_t kRadius = 6;  // 4 sigma

std::ptrdiff_t reflect(std::ptrdiff_t i, std::ptrdiff_t extent) {
  if (i < 0) return -1 - i;
  return i >= extent ? 2 * extent - 1 - i : i;
}

// Rows [y0 - R, y0 + rows + R) and columns [x0 - R, x0 + columns + R) of the image, reflected at its borders. Of chunks
// above and below, only the rows needed are decoded.
void read_with_halo(const ZarrFile& in, Lane& lane, Extents origin, Extents extents, double* padded) {
  const auto [chunk_rows, chunk_columns] = in.chunks();
  const std::ptrdiff_t width = extents[1] + 2 * kRadius;
  auto& encoded = lane.buffer(0, in.encoded_bound());
  double* chunk = lane.buffer(1, in.chunk_bytes()).values();
  const std::ptrdiff_t y_lo = std::max<std::ptrdiff_t>(0, origin[0] - kRadius);
  const std::ptrdiff_t y_hi = std::min(in.shape()[0], origin[0] + extents[0] + kRadius);
  const std::ptrdiff_t x_lo = std::max<std::ptrdiff_t>(0, origin[1] - kRadius);
  const std::ptrdiff_t x_hi = std::min(in.shape()[1], origin[1] + extents[1] + kRadius);
  const auto at = [&](std::ptrdiff_t y, std::ptrdiff_t x) {
    return padded + (y - origin[0] + kRadius) * width + (x - origin[1] + kRadius);
  };
  for (std::ptrdiff_t cy = y_lo / chunk_rows; cy * chunk_rows < y_hi; ++cy) {
    const std::ptrdiff_t first = std::max(y_lo, cy * chunk_rows), last = std::min(y_hi, (cy + 1) * chunk_rows);
    for (std::ptrdiff_t cx = x_lo / chunk_columns; cx * chunk_columns < x_hi; ++cx) {
      if (last - first == chunk_rows) {
        in.read({cy, cx}, chunk, encoded);
      } else {
        in.read_rows({cy, cx}, first - cy * chunk_rows, last - first, chunk, encoded);
      }
      const std::ptrdiff_t left = std::max(x_lo, cx * chunk_columns), right = std::min(x_hi, (cx + 1) * chunk_columns);
      for (std::ptrdiff_t y = first; y < last; ++y) {
        std::memcpy(at(y, left), chunk + (y - first) * chunk_columns + left - cx * chunk_columns,
                    sizeof(double) * static_cast<std::size_t>(right - left));
      }
    }
  }
  for (std::ptrdiff_t y = y_lo; y < y_hi; ++y) {  // columns beyond the image
    for (std::ptrdiff_t x = origin[1] - kRadius; x < x_lo; ++x) *at(y, x) = *at(y, reflect(x, in.shape()[1]));
    for (std::ptrdiff_t x = x_hi; x < origin[1] + extents[1] + kRadius; ++x)
      *at(y, x) = *at(y, reflect(x, in.shape()[1]));
  }
  const auto copy_row = [&](std::ptrdiff_t y) {
    std::memcpy(at(y, origin[1] - kRadius), at(reflect(y, in.shape()[0]), origin[1] - kRadius),
                sizeof(double) * static_cast<std::size_t>(width));
  };
  for (std::ptrdiff_t y = origin[0] - kRadius; y < y_lo; ++y) copy_row(y);
  for (std::ptrdiff_t y = y_hi; y < origin[0] + extents[0] + kRadius; ++y) copy_row(y);
}

// One task is four chunks side by side, so that 1.25 chunks are decoded for one. The separable filter goes down the
// columns into one row, then along that row.
void gaussian(const std::string& a, const std::string& result) {
  const auto in = ZarrFile::open(a);
  const auto out = ZarrFile::create(result, in.shape(), in.chunks());
  double weights[kRadius + 1], norm = 0;
  for (std::ptrdiff_t k = 0; k <= kRadius; ++k) {
    weights[k] = std::exp(-0.5 * static_cast<double>(k * k) / (kSigma * kSigma));
    norm += (k == 0 ? 1 : 2) * weights[k];
  }
  for (double& weight : weights) weight /= norm;

  const auto [chunk_rows, chunk_columns] = in.chunks();
  const std::ptrdiff_t run = std::min<std::ptrdiff_t>(4, in.grid()[1]);
  const std::ptrdiff_t runs = (in.grid()[1] + run - 1) / run;
  for_each(in.grid()[0] * runs, [&](Lane& lane, std::ptrdiff_t task) {
    const std::ptrdiff_t cy = task / runs, cx = task % runs * run;
    const std::ptrdiff_t chunks_here = std::min(run, in.grid()[1] - cx);
    const Extents extents{chunk_rows, chunks_here * chunk_columns};
    const std::ptrdiff_t width = extents[1] + 2 * kRadius;
    double* padded =
        lane.buffer(2, sizeof(double) * static_cast<std::size_t>((chunk_rows + 2 * kRadius) * width)).values();
    read_with_halo(in, lane, {cy * chunk_rows, cx * chunk_columns}, extents, padded);
    double* blurred = lane.buffer(3, in.chunk_bytes() * static_cast<std::size_t>(chunks_here)).values();
    double* down = lane.buffer(4, sizeof(double) * static_cast<std::size_t>(width)).values();
    for (std::ptrdiff_t y = 0; y < chunk_rows; ++y) {
      const double* centre = padded + (y + kRadius) * width;
      for (std::ptrdiff_t x = 0; x < width; ++x) {
        double value = weights[0] * centre[x];
        for (std::ptrdiff_t k = 1; k <= kRadius; ++k)
          value += weights[k] * (centre[x - k * width] + centre[x + k * width]);
        down[x] = value;
      }
      for (std::ptrdiff_t part = 0; part < chunks_here; ++part) {
        double* row = blurred + part * chunk_rows * chunk_columns + y * chunk_columns;
        const double* source = down + part * chunk_columns + kRadius;
        for (std::ptrdiff_t x = 0; x < chunk_columns; ++x) {
          double value = weights[0] * source[x];
          for (std::ptrdiff_t k = 1; k <= kRadius; ++k) value += weights[k] * (source[x - k] + source[x + k]);
          row[x] = value;
        }
      }
    }
    for (std::ptrdiff_t part = 0; part < chunks_here; ++part) {
      out.write({cy, cx + part}, blurred + part * chunk_rows * chunk_columns, lane.buffer(0, in.encoded_bound()));
    }
  });
}

double compare(const std::string& a, const std::string& b) {
  const auto left = ZarrFile::open(a), right = ZarrFile::open(b);
  if (left.shape() != right.shape() || left.chunks() != right.chunks()) return HUGE_VAL;
  std::vector<double> worst(static_cast<std::size_t>(left.grid()[0] * left.grid()[1]));
  for_each_chunk(left, [&](Lane& lane, Extents chunk) {
    auto& encoded = lane.buffer(0, left.encoded_bound());
    double* x = lane.buffer(1, left.chunk_bytes()).values();
    double* y = lane.buffer(2, left.chunk_bytes()).values();
    left.read(chunk, x, encoded);
    right.read(chunk, y, encoded);
    double largest = 0;
    for (std::ptrdiff_t i = 0; i < left.chunks()[0] * left.chunks()[1]; ++i) {
      const double difference = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
      if (!(difference <= largest)) largest = difference;  // also NaN
    }
    worst[static_cast<std::size_t>(chunk[0] * left.grid()[1] + chunk[1])] = largest;
  });
  return *std::max_element(worst.begin(), worst.end());
}

int run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t k) { return static_cast<std::ptrdiff_t>(std::stoll(words.at(k))); };
  const std::string& what = words.at(1);
  threads = static_cast<int>(number(0));
  if (what == "make") {
    make(words.at(2), {number(3), number(4)}, {number(5), number(6)}, static_cast<unsigned>(number(7)));
  } else if (what == "copy") {
    copy(words.at(2), words.at(3));
  } else if (what == "add") {
    add(words.at(2), words.at(3), words.at(4));
  } else if (what == "mean") {
    mean(words.at(2), words.at(3));
  } else if (what == "mean0") {
    mean0(words.at(2), words.at(3));
  } else if (what == "rechunk") {
    rechunk(words.at(2), words.at(3));
  } else if (what == "gaussian") {
    gaussian(words.at(2), words.at(3));
  } else if (what == "compare") {
    std::printf("%.3g\n", compare(words.at(2), words.at(3)));
  } else {
    std::fprintf(stderr, "hand_loop: no loop named %s\n", what.c_str());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hand_loop: wrong arguments (%s); see the head of hand_loop.cc\n", error.what());
    return 2;
  }
}
